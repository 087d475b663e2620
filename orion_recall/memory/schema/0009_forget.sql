-- Who forgot what and when, in counts. No word of what was forgotten is kept.
CREATE TABLE memory_forgets (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('memory', 'person', 'session', 'user', 'tenant')),
    actor text,
    begun_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    salt uuid DEFAULT gen_random_uuid(),
    selector text,
    counts jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX memory_forgets_unfinished ON memory_forgets (tenant, kind) WHERE finished_at IS NULL;

COMMENT ON TABLE memory_forgets IS 'What was forgotten (`memory forget`): who, when, what kind, and counts; no words.';
COMMENT ON COLUMN memory_forgets.kind IS 'memory: by id; person, session, user; tenant: all that a tenant has.';
COMMENT ON COLUMN memory_forgets.actor IS 'Who did it, as they named themselves.';
COMMENT ON COLUMN memory_forgets.finished_at IS 'Null while it is under way, and after a crash: the same command finishes it.';
COMMENT ON COLUMN memory_forgets.salt IS 'Of the selector; null when it is finished.';
COMMENT ON COLUMN memory_forgets.selector IS 'A salted hash of what was asked for, so that the same command goes on; null when it is finished.';
COMMENT ON COLUMN memory_forgets.counts IS 'How much was removed, by place: {place: count}.';

-- The memories of a forgetting under way: once they are blanked, nothing else tells which they were.
CREATE TABLE memory_forget_ids (
    forget bigint NOT NULL REFERENCES memory_forgets ON DELETE CASCADE,
    memory_id text NOT NULL,
    PRIMARY KEY (forget, memory_id)
);
COMMENT ON TABLE memory_forget_ids IS 'The memories of each forgetting that is under way; its rows go when it is finished.';

-- A copy can be asked to rewrite its files, so that nothing of what it deleted stays in them.
ALTER TABLE copy_requests DROP CONSTRAINT copy_requests_task_check;
ALTER TABLE copy_requests ADD CONSTRAINT copy_requests_task_check
    CHECK (task IN ('check', 'repair', 'rewrite', 'take', 'compact'));
COMMENT ON COLUMN copy_requests.task IS 'check: compare with the record; repair: and mend; rewrite: write all anew in place; take: the copy built beside takes its place; compact: rewrite its files without what was deleted.';
