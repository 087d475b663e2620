CREATE TABLE memories (
    tenant text NOT NULL,
    id text NOT NULL,
    seq bigserial NOT NULL UNIQUE,
    text text NOT NULL,
    kind text NOT NULL,
    title text,
    speaker text,
    session_id text,
    node_id text,
    user_id text,
    agent_id text,
    run_id text,
    occurred_at timestamptz,
    occurred_until timestamptz,
    mentioned_at timestamptz,
    ts timestamptz GENERATED ALWAYS AS (coalesce(occurred_at, mentioned_at)) STORED,
    tags text[] NOT NULL DEFAULT '{}',
    entities text[] NOT NULL DEFAULT '{}',
    statements jsonb NOT NULL DEFAULT '[]',
    source text,
    uri text,
    metadata jsonb NOT NULL DEFAULT '{}',
    text_hash text NOT NULL,
    content_hash text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    search tsvector GENERATED ALWAYS AS (
        to_tsvector('english', coalesce(title, '') || ' ' || coalesce(speaker, '') || ' ' || text)
    ) STORED,
    PRIMARY KEY (tenant, id)
);

COMMENT ON TABLE memories IS 'The record: one row a memory, as it was sent, with what was computed when it was written.';
COMMENT ON COLUMN memories.id IS 'Unique in its tenant; given by the sender.';
COMMENT ON COLUMN memories.seq IS 'Order of arrival; breaks ties of ts inside a session.';
COMMENT ON COLUMN memories.ts IS 'When it happened, else when it was mentioned; null when undated.';
COMMENT ON COLUMN memories.entities IS 'Names as written: the given ones and those found in the text.';
COMMENT ON COLUMN memories.statements IS 'Edges in words: [{"subject", "relation", "object"}].';
COMMENT ON COLUMN memories.text_hash IS 'Equal for texts that differ in case, spacing or punctuation only.';
COMMENT ON COLUMN memories.content_hash IS 'SHA-256 over all that the sender gave: the same id with another hash is a conflict.';
COMMENT ON COLUMN memories.search IS 'English text search over title, speaker and text.';

CREATE INDEX memories_by_time ON memories (tenant, ts);
-- The turns of a session in order; undated ones come first, in order of arrival.
CREATE INDEX memories_by_turn ON memories (tenant, session_id, coalesce(ts, '-infinity'), seq)
    WHERE session_id IS NOT NULL;
CREATE INDEX memories_by_word ON memories USING gin (search);

CREATE TABLE outbox (
    position bigserial PRIMARY KEY,
    tenant text NOT NULL,
    memory_id text NOT NULL,
    op text NOT NULL CHECK (op IN ('upsert')),
    recorded_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_by_memory ON outbox (tenant, memory_id, position);

COMMENT ON TABLE outbox IS 'What index and graph have to be told, in order. Writers take an advisory lock first, so that positions become visible in order: a reader at N never misses a smaller one.';
COMMENT ON COLUMN outbox.op IS 'upsert: project the memory as the record holds it now.';

CREATE TABLE projections (
    copy text NOT NULL,
    kind text NOT NULL,
    position bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (copy, kind)
);
COMMENT ON TABLE projections IS 'How far each copy of index and graph has come in the outbox, as it reports itself.';
COMMENT ON COLUMN projections.copy IS 'Which copy: one name for each place that holds one.';
COMMENT ON COLUMN projections.kind IS 'What the copy is of, such as index or graph.';

CREATE TABLE memory_access (
    tenant text NOT NULL,
    id text NOT NULL,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
COMMENT ON TABLE memory_access IS 'How often and when last each memory was among the first of an answer.';

CREATE VIEW collapse_mirror AS
    SELECT tenant, id, ts, text, title, session_id, node_id, user_id, kind, speaker, uri, tags, search
    FROM memories;
COMMENT ON VIEW collapse_mirror IS 'The memories as the timeline reads them.';
