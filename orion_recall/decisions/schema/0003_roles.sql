-- Analysts read decisions, not memories: GRANT orion_analyst TO somebody. Roles belong to the whole server, so
-- the role may be there already, and this file may be run by a role that cannot make one: then it says so and goes on.
DO $$
DECLARE
    relation text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        BEGIN
            CREATE ROLE orion_analyst NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- another database was quicker
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'orion_analyst was not created: % may not create roles. Create it as an administrator and '
                    'grant it SELECT on recall_decisions and the recall_* views.', current_user;
                RETURN;
        END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO orion_analyst', current_schema());
    FOREACH relation IN ARRAY ARRAY['recall_decisions', 'recall_by_profile_hour', 'recall_by_source',
                                    'recall_dropped', 'recall_selected'] LOOP
        EXECUTE format('GRANT SELECT ON %I TO orion_analyst', relation);
    END LOOP;
    BEGIN
        -- So that `decisions sql` may take the role for one query. A superuser may anyway.
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            EXECUTE format('GRANT orion_analyst TO %I', current_user);
        END IF;
    EXCEPTION
        WHEN insufficient_privilege THEN
            RAISE NOTICE '% may not take the role orion_analyst: `decisions sql` will run as %.',
                current_user, current_user;
    END;
END
$$;
