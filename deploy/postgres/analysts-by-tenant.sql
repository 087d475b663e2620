-- Optional: analysts see the decisions of the tenants that they are given, and no others. Run by a superuser or the owner of
-- the schema, inside the database, after `orion-recall migrate`; again after an upgrade. It may be repeated.
--
--   GRANT orion_analyst TO carla;                                         -- carla is a login of her own
--   INSERT INTO orion_recall.analyst_tenants VALUES ('carla', 'north');   -- and sees the tenant north
--
-- The login orion_analyst itself sees what is given to 'orion_analyst', to begin with nothing. Texts of memories are not
-- shown by tenant: here recall_texts and recall_never_selected are closed to orion_reader, too.
SET search_path = orion_recall;

CREATE TABLE IF NOT EXISTS analyst_tenants (
    login text NOT NULL,
    tenant text NOT NULL,
    PRIMARY KEY (login, tenant)
);
ALTER TABLE analyst_tenants OWNER TO orion_owner;
COMMENT ON TABLE analyst_tenants IS 'Which tenants'' decisions a login sees that is a member of orion_analyst.';
GRANT SELECT ON analyst_tenants TO orion_analyst;
-- Nor do they see who else there is.
ALTER TABLE analyst_tenants ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS analysts_see_their_own ON analyst_tenants;
CREATE POLICY analysts_see_their_own ON analyst_tenants FOR SELECT TO orion_analyst USING (login = session_user);

ALTER TABLE recall_decisions ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS workers_see_all ON recall_decisions;
CREATE POLICY workers_see_all ON recall_decisions TO orion_worker USING (true) WITH CHECK (true);
DROP POLICY IF EXISTS analysts_see_their_tenants ON recall_decisions;
CREATE POLICY analysts_see_their_tenants ON recall_decisions FOR SELECT TO orion_analyst
    USING (tenant IN (SELECT tenant FROM analyst_tenants WHERE login = session_user));

-- What recall_feedback_by_profile counts: ids, without the words and the name of whoever gave it.
GRANT SELECT (id, tenant, corr_id, decision_id, used, wrong, at) ON recall_feedback TO orion_analyst;
ALTER TABLE recall_feedback ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS workers_see_all ON recall_feedback;
CREATE POLICY workers_see_all ON recall_feedback TO orion_worker USING (true) WITH CHECK (true);
DROP POLICY IF EXISTS analysts_see_their_tenants ON recall_feedback;
CREATE POLICY analysts_see_their_tenants ON recall_feedback FOR SELECT TO orion_analyst
    USING (tenant IN (SELECT tenant FROM analyst_tenants WHERE login = session_user));

-- The views read with the rights of whoever asks (Postgres 15 or newer).
DO $$
DECLARE
    relation text;
BEGIN
    FOR relation IN SELECT viewname FROM pg_views WHERE schemaname = 'orion_recall' AND viewname LIKE 'recall\_%' LOOP
        EXECUTE format('ALTER VIEW %I SET (security_invoker = true)', relation);
    END LOOP;
END
$$;
