-- What a succession was before it was changed or taken back, so that a decision can be repeated on what it was taken on.
CREATE TABLE memory_succession_history (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    newer text NOT NULL,
    older text NOT NULL,
    probability real NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    evidence text[] NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX memory_succession_history_by_newer ON memory_succession_history (tenant, newer);
CREATE INDEX memory_succession_history_by_older ON memory_succession_history (tenant, older);

COMMENT ON TABLE memory_succession_history IS 'Former states of successions: each as it was from `since` until `until`.';
COMMENT ON COLUMN memory_succession_history.since IS 'When the succession became so.';
COMMENT ON COLUMN memory_succession_history.until IS 'When it was changed, or taken back.';

CREATE FUNCTION keep_former_succession() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_succession_history (tenant, newer, older, probability, state, reason, evidence, since)
    VALUES (
        OLD.tenant, OLD.newer, OLD.older, OLD.probability, OLD.state, OLD.reason, OLD.evidence,
        coalesce(OLD.changed_at, OLD.at)
    );
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION keep_former_succession() IS 'Writes down what a succession was before it is changed or taken back.';

CREATE TRIGGER keep_former_succession AFTER UPDATE OR DELETE ON memory_successions
    FOR EACH ROW EXECUTE FUNCTION keep_former_succession();
