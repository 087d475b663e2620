-- Locks that only who may write can take: rows of a table of ours. An advisory lock is a number that every login of
-- the database can take and hold, and so stop all writes.
CREATE TABLE write_locks (
    name text PRIMARY KEY
);
INSERT INTO write_locks (name) VALUES ('outbox'), ('decisions'), ('requests');

COMMENT ON TABLE write_locks IS 'Locks of those who write: a row is locked to the end of a transaction. Nothing is ever read from it.';
COMMENT ON COLUMN write_locks.name IS 'What is written: outbox, the decisions and requests that are old, or the name of a copy.';

-- Whether a worker of a version before 0.3 holds the advisory lock that it knows this lock by. A login that may not
-- write, and `decisions sql`, hold nothing that counts.
CREATE FUNCTION is_held_by_former_worker(advisory bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_stat_activity AS s USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.classid::bigint = (advisory >> 32) & 4294967295 AND l.objid::bigint = advisory & 4294967295
            AND s.application_name LIKE 'orion-recall:%' AND s.application_name <> 'orion-recall:sql'
            AND has_table_privilege(s.usename, 'outbox'::regclass, 'INSERT')
    )
$$;

-- Waits for the lock of that name, and for workers of a version before 0.3.
CREATE FUNCTION take_write_lock(wanted text, advisory bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM write_locks WHERE name = wanted FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO write_locks (name) VALUES (wanted) ON CONFLICT DO NOTHING;
    END LOOP;
    WHILE NOT pg_try_advisory_xact_lock(advisory) AND is_held_by_former_worker(advisory) LOOP
        PERFORM pg_sleep(0.001);
    END LOOP;
END
$$;

-- Whether the lock of that name was free; now it is taken.
CREATE FUNCTION try_write_lock(wanted text, advisory bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM write_locks WHERE name = wanted FOR UPDATE SKIP LOCKED;
    RETURN FOUND AND (pg_try_advisory_xact_lock(advisory) OR NOT is_held_by_former_worker(advisory));
END
$$;

COMMENT ON FUNCTION is_held_by_former_worker(bigint) IS 'Whether a worker of an earlier version holds an advisory lock.';
COMMENT ON FUNCTION take_write_lock(text, bigint) IS 'Waits for a lock of write_locks, to the end of the transaction.';
COMMENT ON FUNCTION try_write_lock(text, bigint) IS 'Takes a lock of write_locks where it is free, to the end of the transaction.';
