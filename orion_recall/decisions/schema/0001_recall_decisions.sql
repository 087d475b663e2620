-- One row a query: what was found, kept and dropped, why, by which source, in how many ms, under which profile.
CREATE TABLE recall_decisions (
    id                uuid PRIMARY KEY,
    corr_id           text NOT NULL,
    session_id        text,
    node_id           text,
    verb              text,
    profile           text NOT NULL,
    query             text NOT NULL,
    selected_ids      jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(selected_ids) = 'array'),
    backend_counts    jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(backend_counts) = 'object'),
    latency_ms        double precision NOT NULL,
    dropped           jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(dropped) = 'object'),
    created_at        timestamptz NOT NULL,
    outcome           text NOT NULL
        CHECK (outcome IN ('invalid', 'expired', 'refused', 'failed', 'degraded', 'empty', 'ok')),
    error             text,
    tenant            text,
    scope             text,
    user_id           text,
    intent            text,
    profile_requested text,
    profile_hash      text,
    profile_fallback  boolean NOT NULL DEFAULT false,
    sources           jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(sources) = 'object'),
    selected          jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(selected) = 'array'),
    stage_ms          jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(stage_ms) = 'object'),
    tokens            integer NOT NULL DEFAULT 0,
    query_chars       integer NOT NULL DEFAULT 0,
    unknown_fields    integer NOT NULL DEFAULT 0,
    deliveries        integer NOT NULL DEFAULT 1,
    entry_id          text,
    reply_to          text,
    trace_id          text,
    worker            text,
    persisted_at      timestamptz NOT NULL DEFAULT now()
);

-- Correlation and session ids may be of any length, which a B-tree refuses; they are only asked for by equality.
CREATE INDEX recall_decisions_corr_id ON recall_decisions USING hash (corr_id);
CREATE INDEX recall_decisions_session_id ON recall_decisions USING hash (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX recall_decisions_created_at ON recall_decisions (created_at);
CREATE INDEX recall_decisions_profile ON recall_decisions (profile, created_at);
CREATE INDEX recall_decisions_not_ok ON recall_decisions (outcome, created_at) WHERE outcome <> 'ok';
CREATE INDEX recall_decisions_selected_ids ON recall_decisions USING gin (selected_ids jsonb_path_ops);
-- The hour and the day as the views write them, so that a condition on the view's column reads only its rows.
CREATE INDEX recall_decisions_hour ON recall_decisions
    USING brin ((date_trunc('hour', created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')) WITH (autosummarize = on);
CREATE INDEX recall_decisions_day ON recall_decisions
    USING brin (((created_at AT TIME ZONE 'UTC')::date)) WITH (autosummarize = on);

COMMENT ON TABLE recall_decisions IS
    'One row for every recall.query.v1, also the empty, invalid, expired, refused and failed ones. Times are UTC.';
COMMENT ON COLUMN recall_decisions.id IS 'The decision''s own id; a reply with options names it as stats.decision_id.';
COMMENT ON COLUMN recall_decisions.corr_id IS
    'The correlation id of query and reply. Not unique: a query that is sent again is decided again.';
COMMENT ON COLUMN recall_decisions.session_id IS 'The session the query belongs to.';
COMMENT ON COLUMN recall_decisions.node_id IS 'The node of the mesh that asked.';
COMMENT ON COLUMN recall_decisions.verb IS 'The cognitive verb that asked; never searched for.';
COMMENT ON COLUMN recall_decisions.profile IS 'The profile that was used, after any fallback.';
COMMENT ON COLUMN recall_decisions.query IS 'The fragment that was searched for.';
COMMENT ON COLUMN recall_decisions.selected_ids IS
    'Ids of the memories in the answer, best first: ["id", ...]. Ask with selected_ids @> ''["id"]''.';
COMMENT ON COLUMN recall_decisions.backend_counts IS 'Hits each source returned: {source: count}.';
COMMENT ON COLUMN recall_decisions.latency_ms IS 'Milliseconds from taking the query up to the finished answer.';
COMMENT ON COLUMN recall_decisions.dropped IS 'How many of the hits were left out, by reason: {reason: count}.';
COMMENT ON COLUMN recall_decisions.created_at IS 'When the decision was taken.';
COMMENT ON COLUMN recall_decisions.outcome IS
    'The first that applies: invalid, expired, refused, failed (no source answered), degraded, empty, ok.';
COMMENT ON COLUMN recall_decisions.error IS 'Why there is no answer, or what was degraded.';
COMMENT ON COLUMN recall_decisions.tenant IS 'Whose memories were searched.';
COMMENT ON COLUMN recall_decisions.scope IS 'session, user or global (within the tenant).';
COMMENT ON COLUMN recall_decisions.user_id IS 'The user of scope user.';
COMMENT ON COLUMN recall_decisions.intent IS 'Search context that came with the query.';
COMMENT ON COLUMN recall_decisions.profile_requested IS 'The profile the query named; null when it named none.';
COMMENT ON COLUMN recall_decisions.profile_hash IS 'A hash of the profile''s content: two versions of one name differ.';
COMMENT ON COLUMN recall_decisions.profile_fallback IS
    'True when the profile asked for is not known and the default one was used.';
COMMENT ON COLUMN recall_decisions.sources IS
    'How each source did: {source: {status: ok | empty | late | failed | off, count, ms, error}}.';
COMMENT ON COLUMN recall_decisions.selected IS
    'The items of the answer, best first: [{id, source, score, parts: {part: value}, ranks: {source: rank}}].';
COMMENT ON COLUMN recall_decisions.stage_ms IS 'Milliseconds of each stage: {stage: ms}.';
COMMENT ON COLUMN recall_decisions.tokens IS 'Tokens of the rendered answer.';
COMMENT ON COLUMN recall_decisions.query_chars IS 'Characters of the whole fragment, also where query holds less.';
COMMENT ON COLUMN recall_decisions.unknown_fields IS 'Fields of the message that this version does not know.';
COMMENT ON COLUMN recall_decisions.deliveries IS 'How often the query was handed to a worker: above 1 one was lost.';
COMMENT ON COLUMN recall_decisions.entry_id IS 'The query''s stream entry: milliseconds-sequence of its arrival.';
COMMENT ON COLUMN recall_decisions.reply_to IS 'Where the answer went.';
COMMENT ON COLUMN recall_decisions.trace_id IS 'The W3C trace the recall belongs to.';
COMMENT ON COLUMN recall_decisions.worker IS 'The worker that answered.';
COMMENT ON COLUMN recall_decisions.persisted_at IS 'When the row was written; minus created_at it is the log''s delay.';
