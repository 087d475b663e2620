-- Four roles, each with no more than it needs. Run by a superuser inside the database, at every start: it may be repeated.
--
--   orion_owner    owns the schema: `orion-recall migrate`, and nobody else
--   orion_worker   reads and writes rows: what it may do to which table, `orion-recall migrate` says
--   orion_analyst  reads the decision log and nothing else, in read-only transactions
--   orion_reader   optional: an analyst who also reads the texts of memories (recall_texts, recall_never_selected).
--                  Nobody logs in as this role: GRANT orion_reader TO carla, who has a login of her own
--
-- No role has a password here (see passwords.sql): where passwords are asked for, nobody can log in without.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['orion_owner', 'orion_worker', 'orion_analyst'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I', role);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', role);
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_reader') THEN
        CREATE ROLE orion_reader;
    END IF;
    ALTER ROLE orion_reader NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT;
    IF NOT pg_has_role('orion_reader', 'orion_analyst', 'MEMBER') THEN
        GRANT orion_analyst TO orion_reader;
    END IF;
    EXECUTE format('ALTER DATABASE %I OWNER TO orion_owner', current_database());
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO orion_worker, orion_analyst', current_database());
    -- `decisions replay` keeps the record as it was in temporary tables of its own session.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO orion_worker', current_database());
    -- So that everybody who looks here with psql finds the tables by their names alone. orion_owner makes the schema.
    EXECUTE format('ALTER DATABASE %I SET search_path = orion_recall, "$user", public', current_database());
END
$$;

-- By default anybody makes large objects, in a transaction that is not read-only (nothing here has any), and writes to
-- the write-ahead log or uses up transaction ids in one that is.
DO $$
DECLARE
    called regprocedure;
BEGIN
    FOR called IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (
            'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put', 'lo_truncate', 'lo_truncate64',
            'lo_unlink', 'lowrite', 'pg_logical_emit_message', 'pg_current_xact_id', 'txid_current')
            AND has_function_privilege('public', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', called);
    END LOOP;
END
$$;
-- `memory forget` asks for one, to see which transactions are older.
GRANT EXECUTE ON FUNCTION pg_current_xact_id() TO orion_owner, orion_worker;

ALTER SCHEMA public OWNER TO orion_owner;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO orion_worker, orion_analyst;

-- A worker holds sixteen connections at most: this is for eleven of them.
ALTER ROLE orion_worker CONNECTION LIMIT 180;
ALTER ROLE orion_analyst CONNECTION LIMIT 10;
-- A role may set defaults of its own: what an analyst has set goes at every start.
ALTER ROLE orion_analyst RESET ALL;
ALTER ROLE orion_analyst SET default_transaction_read_only = on;
-- An analyst may set other time limits in a session of their own, but never a larger temp_file_limit. Locks of ours are
-- rows of a table (write_locks) that an analyst has no right to: no advisory lock of theirs stops a write.
ALTER ROLE orion_analyst SET statement_timeout = '60s';
ALTER ROLE orion_analyst SET lock_timeout = '5s';
ALTER ROLE orion_analyst SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE orion_analyst SET temp_file_limit = '1GB';
