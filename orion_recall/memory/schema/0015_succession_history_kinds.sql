-- What a former succession was recognised by, in kinds of change and of values: a recall reads these of its reason, and
-- a replay must read them as well. Words of texts are in a reason alone. Rows from before have none.
ALTER TABLE memory_succession_history ADD COLUMN kinds text NOT NULL DEFAULT '';
COMMENT ON COLUMN memory_succession_history.kinds IS
    'The kinds of change and of values in its reason, as "shift: another date"; no words of texts.';

CREATE FUNCTION kinds_of_succession(reason text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN reason ~ '^(end|handover|shift|switch|amount|change|present|weak|value)(/(end|handover|shift|switch|amount|change|present|weak|value))*:'
        THEN split_part(reason, ':', 1) || ':' || coalesce(' ' || substring(
            reason from '(another (amount of money|time of day|date|month|weekday|address|name|number)(, (amount of money|time of day|date|month|weekday|address|name|number))*)$'
        ), '')
        ELSE ''
    END
$$;
COMMENT ON FUNCTION kinds_of_succession(text) IS 'The kinds of change and of values in a reason of a rule; nothing of a reason in other words.';

CREATE OR REPLACE FUNCTION keep_former_succession() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_succession_history (tenant, newer, older, confidence, state, found_by, since, kinds)
    VALUES (
        OLD.tenant, OLD.newer, OLD.older, OLD.confidence, OLD.state, OLD.found_by, coalesce(OLD.changed_at, OLD.at),
        kinds_of_succession(OLD.reason)
    );
    RETURN NULL;
END
$$;
