-- The record: memories with their history, the outbox from which index and graph are projected, and what is known
-- about memories beside what they say.

CREATE TABLE memories (
    tenant text NOT NULL,
    id text NOT NULL,
    seq bigserial NOT NULL UNIQUE,
    text text NOT NULL,
    kind text NOT NULL,
    guessed_kind text,
    kind_confidence real,
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
    given_entities text[] NOT NULL DEFAULT '{}',
    statements jsonb NOT NULL DEFAULT '[]',
    times jsonb NOT NULL DEFAULT '[]',
    extracted_by text NOT NULL DEFAULT 'light',
    extraction_note text,
    source text,
    uri text,
    metadata jsonb NOT NULL DEFAULT '{}',
    confidence double precision,
    text_hash text NOT NULL,
    content_hash text NOT NULL,
    version integer NOT NULL DEFAULT 1,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz,
    superseded_by text,
    deleted_at timestamptz,
    live boolean NOT NULL GENERATED ALWAYS AS (deleted_at IS NULL AND superseded_by IS NULL) STORED,
    search tsvector GENERATED ALWAYS AS (
        to_tsvector('english', coalesce(title, '') || ' ' || coalesce(speaker, '') || ' ' || text)
    ) STORED,
    PRIMARY KEY (tenant, id)
);
COMMENT ON TABLE memories IS 'The record: one row a memory, as it was sent, with what was computed when it was written.';
COMMENT ON COLUMN memories.id IS 'Unique in its tenant; given by the sender.';
COMMENT ON COLUMN memories.seq IS 'Order of arrival; breaks ties of ts inside a session.';
COMMENT ON COLUMN memories.guessed_kind IS 'The kind that was read from the text: index and record find the memory as this one, too.';
COMMENT ON COLUMN memories.kind_confidence IS 'How sure the guess is, in [0, 1]; null when the sender gave the kind.';
COMMENT ON COLUMN memories.ts IS 'When it happened, else when it was mentioned; null when undated.';
COMMENT ON COLUMN memories.entities IS 'Names as written: the given ones and those found in the text.';
COMMENT ON COLUMN memories.given_entities IS 'Those of the entities that the sender named.';
COMMENT ON COLUMN memories.statements IS 'Edges in words: [{"subject", "relation", "object"}].';
COMMENT ON COLUMN memories.times IS 'Times that the text names: [{"text", "since", "until"}], half-open, in epoch seconds.';
COMMENT ON COLUMN memories.extracted_by IS 'What found the entities and statements: light, spacy, llm.';
COMMENT ON COLUMN memories.extraction_note IS 'Why another extractor than the chosen one was used.';
COMMENT ON COLUMN memories.confidence IS 'How sure the sender was, in [0, 1]; null when nothing was said.';
COMMENT ON COLUMN memories.text_hash IS 'Equal for texts that differ in case, spacing or punctuation only.';
COMMENT ON COLUMN memories.content_hash IS 'SHA-256 over all that the sender gave: the same id with another hash is a conflict.';
COMMENT ON COLUMN memories.version IS 'From 1; one more with every change of what the memory says.';
COMMENT ON COLUMN memories.superseded_by IS 'The id of the memory that has taken its place; it is not recalled any more.';
COMMENT ON COLUMN memories.deleted_at IS 'A deleted memory never comes back: its id stays taken.';
COMMENT ON COLUMN memories.live IS 'Whether index, graph and timeline show it.';
COMMENT ON COLUMN memories.search IS 'English text search over title, speaker and text.';
CREATE INDEX memories_by_time ON memories (tenant, ts) WHERE live;
-- The turns of a session in order; undated ones come first, in order of arrival.
CREATE INDEX memories_by_turn ON memories (tenant, session_id, coalesce(ts, '-infinity'), seq)
    WHERE session_id IS NOT NULL AND live;
CREATE INDEX memories_by_word ON memories USING gin (search);
CREATE INDEX memories_by_entity ON memories USING gin (entities) WHERE live;

CREATE VIEW collapse_mirror AS
    SELECT tenant, id, ts, text, title, session_id, node_id, user_id, kind, speaker, uri, tags, search, agent_id, run_id
    FROM memories WHERE live;
COMMENT ON VIEW collapse_mirror IS 'The memories as the timeline reads them.';

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
COMMENT ON TABLE memory_history IS 'Every step of every memory, in order. What it was after a step is what it was before the next one, or what it is now.';
COMMENT ON COLUMN memory_history.version IS 'The version that the step made.';
COMMENT ON COLUMN memory_history.before IS 'The memory as it was before the step; null for the first one.';
COMMENT ON COLUMN memory_history.actor IS 'Who asked for it, as they named themselves.';
COMMENT ON COLUMN memory_history.lineage IS 'What else has to do with it: superseded_by, supersedes, merged, undone, reason.';
CREATE INDEX memory_history_by_memory ON memory_history (tenant, memory_id, id);

CREATE TABLE memory_requests (
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    request_hash text NOT NULL,
    receipt jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, idempotency_key)
);
COMMENT ON TABLE memory_requests IS 'Answers to requests that named an idempotency key: the same request again is answered with them, and changes nothing.';
CREATE INDEX memory_requests_by_time ON memory_requests (at);

CREATE TABLE outbox (
    position bigserial PRIMARY KEY,
    tenant text NOT NULL,
    memory_id text NOT NULL,
    op text NOT NULL CHECK (op IN ('upsert')),
    recorded_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE outbox IS 'What index and graph have to be told, in order. Writers take a lock first, so that positions become visible in order: a reader at N never misses a smaller one.';
COMMENT ON COLUMN outbox.op IS 'upsert: project the memory as the record holds it now.';
CREATE INDEX outbox_by_memory ON outbox (tenant, memory_id, position);

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

-- A copy in a folder is locked by its worker: it alone can look into it, or recall with it.
CREATE TABLE copy_requests (
    id bigserial PRIMARY KEY,
    copy text NOT NULL,
    kind text NOT NULL,
    task text NOT NULL CHECK (task IN ('check', 'repair', 'rewrite', 'take', 'compact', 'recall')),
    given jsonb,
    asked_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    result jsonb,
    error text
);
COMMENT ON TABLE copy_requests IS 'Requests to the workers that keep copies of index and graph, and their answers; the one who asks takes them away.';
COMMENT ON COLUMN copy_requests.task IS 'check: compare with the record; repair: and mend; rewrite: write all anew in place; take: the copy built beside takes its place; compact: rewrite its files without what was deleted; recall: recall the query of a decision again.';
COMMENT ON COLUMN copy_requests.given IS 'What the task is about: of recall the ids of the decision and of a memory.';
COMMENT ON COLUMN copy_requests.seen_at IS 'The last sign of life of the worker that is at it.';
CREATE INDEX copy_requests_open ON copy_requests (copy, kind, id) WHERE ended_at IS NULL;

CREATE TABLE memory_access (
    tenant text NOT NULL,
    id text NOT NULL,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
COMMENT ON TABLE memory_access IS 'How often and when last each memory was among the first of an answer.';

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
COMMENT ON TABLE recall_feedback IS 'What callers said of bundles: which memories were of use, and which were wrong.';
COMMENT ON COLUMN recall_feedback.entry_id IS 'The entry of the bus that brought it: once, however often it is delivered.';
CREATE INDEX recall_feedback_by_decision ON recall_feedback (decision_id);
CREATE INDEX recall_feedback_by_used ON recall_feedback USING gin (used);
CREATE INDEX recall_feedback_by_wrong ON recall_feedback USING gin (wrong);

-- What a text says is found again, later, by something slower than what finds it while it is stored.
CREATE TABLE memory_extractions (
    tenant text NOT NULL,
    memory_id text NOT NULL,
    extractor text NOT NULL CHECK (extractor IN ('light', 'spacy', 'llm')),
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    ticket bigserial NOT NULL,
    PRIMARY KEY (tenant, memory_id)
);
COMMENT ON TABLE memory_extractions IS 'Memories whose names and statements are to be found again, by which extractor. A row goes when that is done.';
COMMENT ON COLUMN memory_extractions.due_at IS 'When it may be taken up: whoever takes it moves this on, so that another does it when that one is gone.';
COMMENT ON COLUMN memory_extractions.attempts IS 'How often it was taken up.';
COMMENT ON COLUMN memory_extractions.ticket IS 'Another one each time it is taken up or due again: only the last taker may end it.';
CREATE INDEX memory_extractions_by_time ON memory_extractions (extractor, due_at, ticket);

-- A memory keeps what it says; the copies show it under the name that all were merged into.
CREATE TABLE entity_merges (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('entity', 'relation')),
    alias text NOT NULL,
    alias_label text NOT NULL,
    merged_into text NOT NULL,
    canonical text NOT NULL,
    canonical_folded text NOT NULL,
    scores jsonb NOT NULL DEFAULT '{}',
    actor text,
    at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    undone_by text
);
COMMENT ON TABLE entity_merges IS 'Names of entities and relations that were merged into others; those not undone are in force.';
COMMENT ON COLUMN entity_merges.alias IS 'The name that was merged, case folded.';
COMMENT ON COLUMN entity_merges.alias_label IS 'The same as it is written.';
COMMENT ON COLUMN entity_merges.merged_into IS 'The name that was asked for.';
COMMENT ON COLUMN entity_merges.canonical IS 'The name that is shown while the merge is in force: the end of the chain, where merged_into was merged itself.';
COMMENT ON COLUMN entity_merges.canonical_folded IS 'The same, case folded.';
COMMENT ON COLUMN entity_merges.scores IS 'What it was proposed by: string, cosine; nothing when it was asked for by name.';
-- A name is merged into one other at a time.
CREATE UNIQUE INDEX entity_merges_by_alias ON entity_merges (tenant, kind, alias) WHERE undone_at IS NULL;
CREATE INDEX entity_merges_by_canonical ON entity_merges (tenant, kind, canonical_folded) WHERE undone_at IS NULL;

-- Memories that take the place of older ones, as it was stated. The memories themselves stay as they are.
CREATE TABLE memory_successions (
    tenant text NOT NULL,
    newer text NOT NULL,
    older text NOT NULL,
    probability real NOT NULL DEFAULT 1,
    state text NOT NULL DEFAULT 'stated' CHECK (state IN ('stated', 'undone')),
    reason text NOT NULL CHECK (reason IN ('supersedes', 'by_person', 'by_extractor')),
    evidence text[] NOT NULL DEFAULT '{}',
    actor text,
    at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz,
    PRIMARY KEY (tenant, newer, older),
    CHECK (newer <> older)
);
CREATE INDEX memory_successions_by_older ON memory_successions (tenant, older);

COMMENT ON TABLE memory_successions IS 'Successions: a newer memory that takes the place of an older one. Nothing is deleted or changed by one.';
COMMENT ON COLUMN memory_successions.probability IS 'How sure it is, in [0, 1]; 1 for what is stated.';
COMMENT ON COLUMN memory_successions.state IS 'stated; or undone: by a person, and not stated again by an extractor.';
COMMENT ON COLUMN memory_successions.reason IS 'Who states it: by_person, by_extractor, or supersedes: taken over from a memory that the newer one supersedes.';
COMMENT ON COLUMN memory_successions.evidence IS 'The ids of the memories that state it.';

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
COMMENT ON TABLE memory_forgets IS 'What was forgotten (`memory forget`): who, when, what kind, and counts; no words.';
COMMENT ON COLUMN memory_forgets.kind IS 'memory: by id; person, session, user; tenant: all that a tenant has.';
COMMENT ON COLUMN memory_forgets.actor IS 'Who did it, as they named themselves.';
COMMENT ON COLUMN memory_forgets.finished_at IS 'Null while it is under way, and after a crash: the same command finishes it.';
COMMENT ON COLUMN memory_forgets.salt IS 'Of the selector; null when it is finished.';
COMMENT ON COLUMN memory_forgets.selector IS 'A salted hash of what was asked for, so that the same command goes on; null when it is finished.';
COMMENT ON COLUMN memory_forgets.counts IS 'How much was removed, by place: {place: count}.';
CREATE INDEX memory_forgets_unfinished ON memory_forgets (tenant, kind) WHERE finished_at IS NULL;

-- Once memories are blanked, nothing else tells which they were.
CREATE TABLE memory_forget_ids (
    forget bigint NOT NULL REFERENCES memory_forgets ON DELETE CASCADE,
    memory_id text NOT NULL,
    PRIMARY KEY (forget, memory_id)
);
COMMENT ON TABLE memory_forget_ids IS 'The memories of each forgetting that is under way; its rows go when it is finished.';

-- Locks that only who may write can take: rows of a table of ours. An advisory lock is a number that every login of
-- the database can take and hold, and so stop all writes.
CREATE TABLE write_locks (
    name text PRIMARY KEY
);
INSERT INTO write_locks (name) VALUES ('outbox'), ('decisions'), ('requests');
COMMENT ON TABLE write_locks IS 'Locks of those who write: a row is locked to the end of a transaction. Nothing is ever read from it.';
COMMENT ON COLUMN write_locks.name IS 'What is written: outbox, the decisions and requests that are old, or the name of a copy.';

CREATE FUNCTION take_write_lock(wanted text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM FROM write_locks WHERE name = wanted FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO write_locks (name) VALUES (wanted) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
COMMENT ON FUNCTION take_write_lock(text) IS 'Waits for a lock of write_locks, to the end of the transaction.';

CREATE FUNCTION try_write_lock(wanted text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM write_locks WHERE name = wanted FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION try_write_lock(text) IS 'Takes a lock of write_locks where it is free, to the end of the transaction.';
