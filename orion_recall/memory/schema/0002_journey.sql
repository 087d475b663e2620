-- What becomes of a memory after it was stored: changed, replaced by another, deleted.
ALTER TABLE memories
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN confidence real,
    ADD COLUMN given_entities text[] NOT NULL DEFAULT '{}',
    ADD COLUMN extracted_by text NOT NULL DEFAULT 'light',
    ADD COLUMN extraction_note text,
    ADD COLUMN updated_at timestamptz,
    ADD COLUMN superseded_by text,
    ADD COLUMN deleted_at timestamptz;
-- Which of them were given was not kept until now.
UPDATE memories SET given_entities = entities;
ALTER TABLE memories
    ADD COLUMN live boolean NOT NULL GENERATED ALWAYS AS (deleted_at IS NULL AND superseded_by IS NULL) STORED;

COMMENT ON COLUMN memories.version IS 'From 1; one more with every change of what the memory says.';
COMMENT ON COLUMN memories.confidence IS 'How sure the sender was, in [0, 1]; null when nothing was said.';
COMMENT ON COLUMN memories.given_entities IS 'Those of the entities that the sender named.';
COMMENT ON COLUMN memories.extracted_by IS 'What found the entities and statements: light, spacy, llm.';
COMMENT ON COLUMN memories.extraction_note IS 'Why another extractor than the chosen one was used.';
COMMENT ON COLUMN memories.superseded_by IS 'The id of the memory that has taken its place; it is not recalled any more.';
COMMENT ON COLUMN memories.deleted_at IS 'A deleted memory never comes back: its id stays taken.';
COMMENT ON COLUMN memories.live IS 'Whether index, graph and timeline show it.';

DROP INDEX memories_by_time, memories_by_turn;
CREATE INDEX memories_by_time ON memories (tenant, ts) WHERE live;
CREATE INDEX memories_by_turn ON memories (tenant, session_id, coalesce(ts, '-infinity'), seq)
    WHERE session_id IS NOT NULL AND live;
CREATE INDEX memories_by_entity ON memories USING gin (entities) WHERE live;

CREATE TABLE memory_history (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    memory_id text NOT NULL,
    version integer NOT NULL,
    op text NOT NULL CHECK (op IN ('add', 'update', 'merge', 'supersede', 'delete', 'erase')),
    before jsonb,
    actor text,
    lineage jsonb NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX memory_history_by_memory ON memory_history (tenant, memory_id, id);

COMMENT ON TABLE memory_history IS 'Every step of every memory, in order. What it was after a step is what it was before the next one, or what it is now.';
COMMENT ON COLUMN memory_history.version IS 'The version that the step made.';
COMMENT ON COLUMN memory_history.before IS 'The memory as it was before the step; null for the first one.';
COMMENT ON COLUMN memory_history.actor IS 'Who asked for it, as they named themselves.';
COMMENT ON COLUMN memory_history.lineage IS 'What else has to do with it: superseded_by, supersedes, merged, undone, reason.';

INSERT INTO memory_history (tenant, memory_id, version, op, at)
    SELECT tenant, id, 1, 'add', recorded_at FROM memories ORDER BY seq;

CREATE TABLE memory_requests (
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    request_hash text NOT NULL,
    receipt jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, idempotency_key)
);
COMMENT ON TABLE memory_requests IS 'Answers to requests that named an idempotency key: the same request again is answered with them, and changes nothing.';

CREATE TABLE recall_feedback (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    corr_id text,
    decision_id text,
    used text[] NOT NULL DEFAULT '{}',
    wrong text[] NOT NULL DEFAULT '{}',
    note text,
    actor text,
    entry_id text UNIQUE,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX recall_feedback_by_decision ON recall_feedback (decision_id);
COMMENT ON TABLE recall_feedback IS 'What callers said of bundles: which memories were of use, and which were wrong.';
COMMENT ON COLUMN recall_feedback.entry_id IS 'The entry of the bus that brought it: once, however often it is delivered.';

CREATE OR REPLACE VIEW collapse_mirror AS
    SELECT tenant, id, ts, text, title, session_id, node_id, user_id, kind, speaker, uri, tags, search
    FROM memories WHERE live;
