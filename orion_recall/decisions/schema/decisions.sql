-- The decision log: one row a query, what was found, kept and dropped, why, by which source, in how many ms, under which
-- profile; views for what is asked of it again and again; and the roles of those who ask.
--
-- Values inside JSON columns are read only where they have the type they should have, and fit: a view never fails on a
-- row that another version wrote. What nobody was sent (shadow_of) counts in no view but recall_trials.

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
    understood        jsonb,
    confidence        double precision,
    cascade           jsonb,
    no_answer         jsonb,
    strategy          text,
    shadow_of         uuid,
    answer_probability double precision,
    canary            jsonb,
    asked             jsonb,
    read_at           jsonb,
    build             jsonb,
    not_replayable    text,
    candidates        jsonb,
    unsure            boolean NOT NULL DEFAULT false,
    weights           jsonb CHECK (weights IS NULL OR jsonb_typeof(weights) = 'object'),
    persisted_at      timestamptz NOT NULL DEFAULT now()
);
-- Correlation and session ids may be of any length, which a B-tree refuses; they are only asked for by equality.
CREATE INDEX recall_decisions_corr_id ON recall_decisions USING hash (corr_id);
CREATE INDEX recall_decisions_session_id ON recall_decisions USING hash (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX recall_decisions_created_at ON recall_decisions (created_at);
CREATE INDEX recall_decisions_profile ON recall_decisions (profile, created_at);
CREATE INDEX recall_decisions_not_ok ON recall_decisions (outcome, created_at) WHERE outcome <> 'ok';
CREATE INDEX recall_decisions_selected_ids ON recall_decisions USING gin (selected_ids jsonb_path_ops);
CREATE INDEX recall_decisions_shadow_of ON recall_decisions USING hash (shadow_of) WHERE shadow_of IS NOT NULL;
CREATE INDEX recall_decisions_unsure ON recall_decisions (created_at) WHERE unsure AND shadow_of IS NULL;
CREATE INDEX recall_decisions_canaries ON recall_decisions (created_at) WHERE canary IS NOT NULL AND shadow_of IS NULL;
-- The hour and the day as the views write them, so that a condition on the view's column reads only its rows. B-trees:
-- an interrupted summary of a BRIN index leaves a mark from which a scan takes every page.
CREATE INDEX recall_decisions_hour ON recall_decisions ((date_trunc('hour', created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'));
CREATE INDEX recall_decisions_day ON recall_decisions (((created_at AT TIME ZONE 'UTC')::date));
-- By the memory, also by one that another was dropped for: what is forgotten goes from them.
CREATE INDEX recall_decisions_candidates ON recall_decisions USING gin (
    (jsonb_path_query_array(candidates, '$[*].id') || jsonb_path_query_array(candidates, '$[*].dropped_for')) jsonb_path_ops
) WHERE candidates IS NOT NULL;
CREATE INDEX recall_feedback_day ON recall_feedback (((at AT TIME ZONE 'UTC')::date));

COMMENT ON TABLE recall_decisions IS
    'One row for every recall.query.v1, also the empty, invalid, expired, refused and failed ones, and one more '
    '(with shadow_of) for each that a shadow profile recalled as well. Times are UTC.';
COMMENT ON COLUMN recall_decisions.id IS 'The decision''s own id; a reply with options names it as stats.decision_id.';
COMMENT ON COLUMN recall_decisions.corr_id IS
    'The correlation id of query and reply. Not unique: a query that is sent again is decided again.';
COMMENT ON COLUMN recall_decisions.session_id IS 'The session the query belongs to.';
COMMENT ON COLUMN recall_decisions.node_id IS 'The node of the mesh that asked.';
COMMENT ON COLUMN recall_decisions.verb IS 'The cognitive verb that asked; never searched for.';
COMMENT ON COLUMN recall_decisions.profile IS 'The profile that was used, after any fallback.';
COMMENT ON COLUMN recall_decisions.query IS
    'The fragment (its first 4,000 characters); where query text is not kept, blake2b: and 32 hex digits, or nothing.';
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
COMMENT ON COLUMN recall_decisions.intent IS
    'Search context that came with the query; where query text is not kept, its hash, or null.';
COMMENT ON COLUMN recall_decisions.profile_requested IS 'The profile the query named; null when it named none.';
COMMENT ON COLUMN recall_decisions.profile_hash IS 'A hash of the profile''s content: two versions of one name differ.';
COMMENT ON COLUMN recall_decisions.profile_fallback IS
    'True when the profile asked for is not known and the default one was used.';
COMMENT ON COLUMN recall_decisions.sources IS
    'How each source did: {source: {status: ok | empty | late | failed | off, count, ms, error, stood_in}}. stood_in is '
    'record where the record''s text search answered in the place of an index that did not.';
COMMENT ON COLUMN recall_decisions.selected IS
    'The items of the answer, best first: [{id, source, score, parts: {part: value}, ranks: {source: rank}, confidence: '
    '{overall, level, and its five factors}, layer}].';
COMMENT ON COLUMN recall_decisions.stage_ms IS 'Milliseconds of each stage: {stage: ms}.';
COMMENT ON COLUMN recall_decisions.tokens IS 'Tokens of the rendered answer.';
COMMENT ON COLUMN recall_decisions.query_chars IS 'Characters of the whole fragment, also where query holds less.';
COMMENT ON COLUMN recall_decisions.unknown_fields IS 'Fields of the message that this version does not know.';
COMMENT ON COLUMN recall_decisions.deliveries IS 'How often the query was handed to a worker: above 1 one was lost.';
COMMENT ON COLUMN recall_decisions.entry_id IS 'The query''s stream entry: milliseconds-sequence of its arrival.';
COMMENT ON COLUMN recall_decisions.reply_to IS 'Where the answer went.';
COMMENT ON COLUMN recall_decisions.trace_id IS 'The W3C trace the recall belongs to.';
COMMENT ON COLUMN recall_decisions.worker IS 'The worker that answered.';
COMMENT ON COLUMN recall_decisions.understood IS
    'What was understood of the query: {time: {intervals: [{from, until, kind, words}], asks_when, session}, '
    'asks_for: [name, number], class, class_words, language, people, entities: [{name, kind}]}; from and until are '
    'half-open, in UTC, null where open; words, class_words, people and entities are absent where query text is not kept.';
COMMENT ON COLUMN recall_decisions.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item; where no_answer is not null, that of the first item that was withheld.';
COMMENT ON COLUMN recall_decisions.cascade IS
    'The way through the layers of memory, null without a cascade: {primary_layer, primary_confidence, cascaded_to, '
    'cascade_confidences, final_confidence, threshold, depth, max_depth, ended: confident | depth | no_layer | deadline, '
    'trigger: a code, merge_strategy, combined: {layer: items}, path: [{layer, depth, hits, confidence, ms, late, not_asked}]}.';
COMMENT ON COLUMN recall_decisions.no_answer IS
    'Why nothing was handed over although something was found, or why nothing was searched (a greeting): {reason: a code, value, minimum, near_misses}; null else.';
COMMENT ON COLUMN recall_decisions.strategy IS
    'The class of question whose strategy of the profile was used; null where the profile has none for it.';
COMMENT ON COLUMN recall_decisions.shadow_of IS
    'The id of the decision that answered, where this one was taken in its shadow: nobody was sent it.';
COMMENT ON COLUMN recall_decisions.answer_probability IS
    'The probability that anything found answers the question: 0 to 1; null where that could not be told.';
COMMENT ON COLUMN recall_decisions.canary IS
    'Where the profile that the query came to has a canary: {trial, profile, canary, variant, share}; variant (canary or '
    'control) is which of the two answered, share that of the sessions the canary answers.';
COMMENT ON COLUMN recall_decisions.asked IS
    'What was asked beside the text: {options, turn, lane, scope: {name, session_id, user_id, agent_id, run_id, kinds, tags}, '
    'clock, zone, limits: {search_ms}}. options, turn and lane are those of the message, without what is absent; scope is the '
    'one that was searched, clock what was now, in UTC; they are absent where nothing was recalled. Tags, context and the '
    'turn''s text are absent where query text is not kept.';
COMMENT ON COLUMN recall_decisions.read_at IS
    'The positions in the outbox that the copies had applied when the search began: {index, graph}.';
COMMENT ON COLUMN recall_decisions.build IS
    'What decided: {version, model, weights: the first digits of their hash, extractor}.';
COMMENT ON COLUMN recall_decisions.not_replayable IS
    'Why the query cannot be asked again as it was; null where it can, and in decisions of versions before this column.';
COMMENT ON COLUMN recall_decisions.candidates IS
    'The candidates, best first, where they were kept: [{id, source, ranks, fused, place, score, parts, weights, kept, dropped, '
    'dropped_for, layer}]; null where they were not. The view recall_candidates has them in columns.';
COMMENT ON COLUMN recall_decisions.unsure IS
    'Whether nothing clearly answers: the nearest were handed over, three at most.';
COMMENT ON COLUMN recall_decisions.weights IS
    'The weights of the parts of selected: {part: weight}. A score is the mean of its parts by these. Null: nothing was '
    'selected, or the items have several sets of weights.';
COMMENT ON COLUMN recall_decisions.persisted_at IS 'When the row was written; minus created_at it is the log''s delay.';

CREATE TABLE recall_profiles (
    hash       text PRIMARY KEY,
    profile    text NOT NULL,
    text       text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE recall_profiles IS 'The text behind every profile_hash that a worker has served.';
COMMENT ON COLUMN recall_profiles.hash IS 'The hash of the profile''s content: recall_decisions.profile_hash.';
COMMENT ON COLUMN recall_profiles.profile IS 'The profile''s name.';
COMMENT ON COLUMN recall_profiles.text IS 'The profile as YAML, every value written out; it can be used as it is.';
COMMENT ON COLUMN recall_profiles.first_seen IS 'When a worker first wrote it down.';

-- A number in a JSON column may be larger than the type of a view's column (10^30, or of a thousand digits): it is null there.
-- The bodies are expressions, not texts: what they call does not depend on the reader's search_path.
CREATE FUNCTION json_integer(value jsonb) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN value::numeric BETWEEN -2147483648 AND 2147483647 THEN value::numeric::integer END END;
CREATE FUNCTION json_bigint(value jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN value::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN value::numeric::bigint END END;
CREATE FUNCTION json_double(value jsonb) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN length(value::text) < 300 THEN value::text::double precision END END;
COMMENT ON FUNCTION json_integer(jsonb) IS 'The number, rounded; null where it is none, or does not fit an integer.';
COMMENT ON FUNCTION json_bigint(jsonb) IS 'The number, rounded; null where it is none, or does not fit a bigint.';
COMMENT ON FUNCTION json_double(jsonb) IS 'The number; null where it is none, or has 300 digits or more.';
-- A view calls functions with the rights of its reader.
GRANT EXECUTE ON FUNCTION json_integer(jsonb), json_bigint(jsonb), json_double(jsonb) TO PUBLIC;

CREATE VIEW recall_queries AS
SELECT d.id AS decision_id,
       d.created_at,
       d.corr_id,
       d.tenant,
       d.scope,
       d.session_id,
       d.user_id,
       d.node_id,
       d.verb,
       d.profile,
       d.profile_hash,
       d.profile_fallback,
       d.strategy,
       d.understood ->> 'class' AS class,
       d.understood ->> 'language' AS language,
       d.query,
       d.asked -> 'options' AS options,
       d.asked ->> 'clock' AS clock,
       d.asked ->> 'zone' AS zone,
       d.outcome,
       d.no_answer ->> 'reason' AS no_answer,
       d.confidence,
       d.answer_probability,
       d.unsure,
       (SELECT coalesce(sum(json_integer(each.value)), 0)
        FROM jsonb_each(d.backend_counts) AS each) AS found,
       jsonb_array_length(d.selected_ids) AS kept,
       d.tokens,
       d.dropped,
       d.latency_ms,
       d.deliveries,
       json_bigint(d.read_at -> 'index') AS index_position,
       json_bigint(d.read_at -> 'graph') AS graph_position,
       d.build ->> 'version' AS version,
       d.build ->> 'model' AS model,
       d.build ->> 'weights' AS weights,
       d.build ->> 'extractor' AS extractor,
       d.not_replayable,
       d.worker
FROM recall_decisions AS d
WHERE d.shadow_of IS NULL;

COMMENT ON VIEW recall_queries IS
    'One row for every query, with what is in the JSON columns of its decision as plain columns. '
    'Ask with a condition on created_at, as created_at >= now() - interval ''1 day''.';
COMMENT ON COLUMN recall_queries.class IS 'The class of question that was understood.';
COMMENT ON COLUMN recall_queries.language IS 'The language of the question.';
COMMENT ON COLUMN recall_queries.options IS 'The options of the query, as it gave them: {k, kinds, …}; null without any.';
COMMENT ON COLUMN recall_queries.clock IS 'What was now for the query: ISO 8601, in UTC.';
COMMENT ON COLUMN recall_queries.zone IS 'The time zone in which its words for times were understood.';
COMMENT ON COLUMN recall_queries.found IS 'Hits of all sources together.';
COMMENT ON COLUMN recall_queries.kept IS 'Memories in the answer.';
COMMENT ON COLUMN recall_queries.index_position IS 'The position in the outbox that the index had applied.';
COMMENT ON COLUMN recall_queries.graph_position IS 'The position in the outbox that the graph had applied.';
COMMENT ON COLUMN recall_queries.version IS 'The version of the program that decided.';
COMMENT ON COLUMN recall_queries.model IS 'The embedding model.';
COMMENT ON COLUMN recall_queries.weights IS 'The first digits of the hash of the model''s weights.';
COMMENT ON COLUMN recall_queries.extractor IS 'What finds entities and statements: light, spacy, llm.';

CREATE VIEW recall_selected AS
SELECT d.id AS decision_id,
       d.created_at,
       d.corr_id,
       d.profile,
       item.rank,
       item.value ->> 'id' AS memory_id,
       item.value ->> 'source' AS source,
       json_double(item.value -> 'score') AS score,
       item.value -> 'parts' AS parts,
       item.value -> 'ranks' AS ranks,
       json_double(item.value -> 'confidence' -> 'overall') AS confidence,
       item.value ->> 'layer' AS layer
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(d.selected) WITH ORDINALITY AS item (value, rank);

COMMENT ON VIEW recall_selected IS 'One row for every item of every answer.';
COMMENT ON COLUMN recall_selected.score IS 'The final score: 0 to 1.';
COMMENT ON COLUMN recall_selected.confidence IS 'How sure the item was: 0 to 1.';

CREATE VIEW recall_candidates AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.profile,
       d.profile_hash,
       item.number,
       item.value ->> 'id' AS memory_id,
       json_integer(item.value -> 'place') AS place,
       CASE jsonb_typeof(item.value -> 'kept') WHEN 'boolean' THEN (item.value ->> 'kept')::boolean END AS kept,
       item.value ->> 'dropped' AS dropped,
       item.value ->> 'dropped_for' AS dropped_for,
       json_double(item.value -> 'score') AS score,
       json_double(item.value -> 'fused') AS fused,
       item.value ->> 'source' AS source,
       item.value -> 'ranks' AS ranks,
       item.value -> 'parts' AS parts,
       item.value -> 'weights' AS weights,
       item.value ->> 'layer' AS layer
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(d.candidates) WHEN 'array' THEN d.candidates END)
    WITH ORDINALITY AS item (value, number)
WHERE d.candidates IS NOT NULL AND d.shadow_of IS NULL;

COMMENT ON VIEW recall_candidates IS
    'One row for every candidate of the decisions that keep them (the key decisions of their profile): also those left out. '
    'Ask with a condition on created_at or decision_id.';
COMMENT ON COLUMN recall_candidates.number IS 'The candidate''s number in the list of the decision, from 1.';
COMMENT ON COLUMN recall_candidates.place IS 'Its place in the final order, from 1; null: it was dropped before that.';
COMMENT ON COLUMN recall_candidates.kept IS 'Whether it was handed over.';
COMMENT ON COLUMN recall_candidates.dropped IS 'Why it was not: near_duplicate, max_total_items and so on; null where it was.';
COMMENT ON COLUMN recall_candidates.dropped_for IS 'The memory that was kept in its place, if any.';
COMMENT ON COLUMN recall_candidates.score IS 'The final score, 0 to 1; null: it was dropped before it had one.';
COMMENT ON COLUMN recall_candidates.fused IS 'The score after the fusion of the lists, 0 to 1.';
COMMENT ON COLUMN recall_candidates.weights IS 'The weights of the parts: {part: weight}. The score is the mean of the parts by these.';

CREATE VIEW recall_layers AS
SELECT d.id AS decision_id,
       d.created_at,
       d.profile,
       step.place,
       step.value ->> 'layer' AS layer,
       json_integer(step.value -> 'depth') AS depth,
       json_integer(step.value -> 'hits') AS hits,
       json_double(step.value -> 'confidence') AS confidence,
       json_double(step.value -> 'ms') AS ms,
       CASE jsonb_typeof(step.value -> 'late') WHEN 'array' THEN jsonb_array_length(step.value -> 'late') END AS late,
       step.value ->> 'not_asked' AS not_asked,
       coalesce(json_integer(d.cascade -> 'combined' -> (step.value ->> 'layer')), 0) AS selected,
       d.cascade ->> 'ended' AS ended
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(d.cascade -> 'path') WHEN 'array' THEN d.cascade -> 'path' ELSE '[]' END
) WITH ORDINALITY AS step (value, place);

COMMENT ON VIEW recall_layers IS 'One row for every layer of every cascade.';
COMMENT ON COLUMN recall_layers.place IS 'Its place on the path, from 1.';
COMMENT ON COLUMN recall_layers.layer IS 'The layer.';
COMMENT ON COLUMN recall_layers.depth IS '0: the first layer; 1: those that it names, and so on.';
COMMENT ON COLUMN recall_layers.hits IS 'Memories that its sources found.';
COMMENT ON COLUMN recall_layers.confidence IS 'How sure its first item was: 0 to 1; null when it found none.';
COMMENT ON COLUMN recall_layers.ms IS 'How long it took.';
COMMENT ON COLUMN recall_layers.late IS 'How many of its sources the deadline cut.';
COMMENT ON COLUMN recall_layers.not_asked IS 'Why it was not searched; null when it was.';
COMMENT ON COLUMN recall_layers.selected IS 'Items of it in the answer.';
COMMENT ON COLUMN recall_layers.ended IS 'How the cascade ended: confident, depth, no_layer or deadline.';

CREATE VIEW recall_stage_ms AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.profile,
       d.outcome,
       stage.key AS stage,
       json_double(stage.value) AS ms
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.stage_ms) AS stage
WHERE d.shadow_of IS NULL AND jsonb_typeof(stage.value) = 'number';

COMMENT ON VIEW recall_stage_ms IS
    'One row for every stage of every query. Ask with a condition on created_at.';
COMMENT ON COLUMN recall_stage_ms.stage IS 'The stage; total is all of them.';
COMMENT ON COLUMN recall_stage_ms.ms IS 'Its milliseconds.';

CREATE VIEW recall_trials AS
SELECT 'canary' AS kind,
       d.canary ->> 'profile' AS profile,
       d.canary ->> 'canary' AS tried_profile,
       CASE d.canary ->> 'variant' WHEN 'canary' THEN 'tried' ELSE 'control' END AS side,
       d.canary ->> 'trial' AS trial,
       NULL::uuid AS pair,
       d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.corr_id,
       d.outcome,
       d.unsure,
       d.selected_ids,
       d.tokens,
       d.confidence,
       d.latency_ms
FROM recall_decisions AS d
WHERE d.canary IS NOT NULL AND d.shadow_of IS NULL AND d.outcome IN ('ok', 'empty', 'degraded', 'failed')
UNION ALL
SELECT 'shadow', first.profile, shadow.profile, side.name, NULL, first.id, d.id, first.created_at, d.tenant, d.corr_id,
       d.outcome, d.unsure, d.selected_ids, d.tokens, d.confidence, d.latency_ms
FROM recall_decisions AS shadow
JOIN recall_decisions AS first ON first.id = shadow.shadow_of
CROSS JOIN LATERAL (VALUES ('control', first), ('tried', shadow)) AS side (name, d)
CROSS JOIN LATERAL (SELECT (side.d).*) AS d
WHERE shadow.shadow_of IS NOT NULL;

COMMENT ON VIEW recall_trials IS
    'One row for every answer of a profile that is tried, and of the profile that it is tried beside: as a shadow (two rows a '
    'query) or as a canary (two shares of the sessions). `decisions compare` has the measures.';
COMMENT ON COLUMN recall_trials.kind IS 'shadow: both recalled the query, and the control answered it; canary: one of them did.';
COMMENT ON COLUMN recall_trials.profile IS 'The control: the profile that the queries came to.';
COMMENT ON COLUMN recall_trials.tried_profile IS 'The profile that is tried.';
COMMENT ON COLUMN recall_trials.side IS 'Which of the two this is of: control or tried.';
COMMENT ON COLUMN recall_trials.trial IS 'Of a canary: the same until either profile is edited.';
COMMENT ON COLUMN recall_trials.pair IS 'Of a shadow: the decision that answered; both rows have it.';
COMMENT ON COLUMN recall_trials.outcome IS 'ok, empty, degraded or failed; of a shadow, how it would have been answered.';
COMMENT ON COLUMN recall_trials.latency_ms IS 'Milliseconds up to the answer; a shadow finds the vector of the question made already.';

-- Words of four letters and more; the text is absent, or a hash, where query text is not kept.
CREATE VIEW recall_follow_ups AS
WITH asked AS (
    SELECT id, tenant, session_id, created_at, profile, canary,
           ARRAY(SELECT DISTINCT word
                 FROM regexp_split_to_table(lower(query), '[^[:alnum:]]+') AS word
                 WHERE length(word) > 3) AS words
    FROM recall_decisions
    WHERE session_id IS NOT NULL AND shadow_of IS NULL AND query NOT IN ('') AND query NOT LIKE 'blake2b:%'
      AND outcome IN ('ok', 'empty', 'degraded', 'failed')
), next AS (
    SELECT id, tenant, session_id, created_at, profile, canary, words,
           lead(id) OVER later AS next_id,
           lead(created_at) OVER later AS next_at,
           lead(words) OVER later AS next_words
    FROM asked
    WINDOW later AS (PARTITION BY tenant, session_id ORDER BY created_at, id)
)
SELECT id AS decision_id,
       created_at,
       tenant,
       session_id,
       profile,
       canary ->> 'trial' AS trial,
       canary ->> 'variant' AS variant,
       next_id,
       extract(epoch FROM next_at - created_at)::double precision AS seconds,
       CASE WHEN next_id IS NOT NULL AND cardinality(words) > 0 THEN
           (SELECT count(*) FROM unnest(words) AS word WHERE word = ANY (next_words))::double precision
               / cardinality(words) END AS shared_words
FROM next;

COMMENT ON VIEW recall_follow_ups IS
    'One row for every answered query of a session, with the next one of that session: did they search again? Empty '
    'where query text is not kept (ORION_QUERY_TEXT).';
COMMENT ON COLUMN recall_follow_ups.trial IS 'The trial of a canary; null without one.';
COMMENT ON COLUMN recall_follow_ups.variant IS 'Which of its profiles answered: canary or control.';
COMMENT ON COLUMN recall_follow_ups.next_id IS 'The next decision of the session; null when it is the last.';
COMMENT ON COLUMN recall_follow_ups.seconds IS 'Seconds until the next.';
COMMENT ON COLUMN recall_follow_ups.shared_words IS
    'The share of its words of four letters and more that the next query has, too: 0 to 1.';

CREATE VIEW recall_by_profile_hour AS
SELECT profile,
       date_trunc('hour', created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS hour,
       count(*) AS count,
       avg((outcome = 'empty')::int)::double precision AS empty_rate,
       avg((outcome = 'degraded')::int)::double precision AS degraded_rate,
       avg((outcome IN ('invalid', 'expired', 'refused', 'failed'))::int)::double precision AS error_rate,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY latency_ms)
           FILTER (WHERE outcome IN ('ok', 'empty', 'degraded', 'failed')) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms)
           FILTER (WHERE outcome IN ('ok', 'empty', 'degraded', 'failed')) AS p95_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms)
           FILTER (WHERE outcome IN ('ok', 'empty', 'degraded', 'failed')) AS p99_ms
FROM recall_decisions
WHERE shadow_of IS NULL
GROUP BY 1, 2;

COMMENT ON VIEW recall_by_profile_hour IS 'How each profile did in each hour (UTC).';
COMMENT ON COLUMN recall_by_profile_hour.count IS 'Decisions.';
COMMENT ON COLUMN recall_by_profile_hour.empty_rate IS 'Share of all decisions that found nothing: 0 to 1.';
COMMENT ON COLUMN recall_by_profile_hour.degraded_rate IS 'Share of decisions that went without a source: 0 to 1.';
COMMENT ON COLUMN recall_by_profile_hour.error_rate IS
    'Share of all decisions without an answer (invalid, expired, refused, failed): 0 to 1.';
COMMENT ON COLUMN recall_by_profile_hour.p50_ms IS 'Median latency of the decisions that searched; null when none did.';
COMMENT ON COLUMN recall_by_profile_hour.p95_ms IS 'Latency that 95 % of the decisions that searched stayed within.';
COMMENT ON COLUMN recall_by_profile_hour.p99_ms IS 'Latency that 99 % of the decisions that searched stayed within.';

-- Searches and selected items are put under one another, not joined: a condition on hour then reaches both.
CREATE VIEW recall_by_source AS
WITH observed AS (
    SELECT date_trunc('hour', d.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS hour,
           search.key AS source,
           search.value ->> 'status' AS status,
           json_integer(search.value -> 'count') AS hits,
           json_double(search.value -> 'ms') AS ms,
           search.value ->> 'stood_in' IS NOT NULL AS is_fallback,
           false AS selected
    FROM recall_decisions AS d
    CROSS JOIN LATERAL jsonb_each(d.sources) AS search
    WHERE d.shadow_of IS NULL
    UNION ALL
    SELECT date_trunc('hour', d.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC',
           item.value ->> 'source', NULL, NULL, NULL, false, true
    FROM recall_decisions AS d
    CROSS JOIN LATERAL jsonb_array_elements(d.selected) AS item
    WHERE item.value ->> 'source' IS NOT NULL AND d.shadow_of IS NULL
)
SELECT hour,
       source,
       count(*) FILTER (WHERE status <> 'off') AS searches,
       count(*) FILTER (WHERE status = 'ok') AS ok,
       count(*) FILTER (WHERE status = 'empty') AS empty,
       count(*) FILTER (WHERE status = 'late') AS late,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status = 'off') AS off,
       coalesce(sum(hits), 0) AS hits,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS median_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS p95_ms,
       count(*) FILTER (WHERE selected) AS selected,
       (count(*) FILTER (WHERE selected)
           / nullif(sum(count(*) FILTER (WHERE selected)) OVER (PARTITION BY hour), 0))::double precision
           AS share_of_selected,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS p99_ms,
       count(*) FILTER (WHERE is_fallback) AS fallbacks
FROM observed
GROUP BY hour, source;

COMMENT ON VIEW recall_by_source IS 'How each source did in each hour (UTC).';
COMMENT ON COLUMN recall_by_source.source IS 'vector, lexical, rdf, sql_timeline, or a later one.';
COMMENT ON COLUMN recall_by_source.searches IS 'How often the source was asked: every status but off.';
COMMENT ON COLUMN recall_by_source.ok IS 'Searches that brought hits.';
COMMENT ON COLUMN recall_by_source.empty IS 'Searches that brought none.';
COMMENT ON COLUMN recall_by_source.late IS 'Searches that missed the deadline.';
COMMENT ON COLUMN recall_by_source.failed IS 'Searches that ended in an error.';
COMMENT ON COLUMN recall_by_source.off IS 'Decisions whose profile leaves the source out.';
COMMENT ON COLUMN recall_by_source.hits IS 'Hits of all its searches together.';
COMMENT ON COLUMN recall_by_source.median_ms IS 'Median milliseconds of a search.';
COMMENT ON COLUMN recall_by_source.p95_ms IS 'Milliseconds that 95 % of the searches stayed within.';
COMMENT ON COLUMN recall_by_source.selected IS
    'Items of answers that count for this source: an item found by several counts for the one that ranked it best.';
COMMENT ON COLUMN recall_by_source.share_of_selected IS
    'Its share of all items selected in the hour: 0 to 1; null when none was selected.';
COMMENT ON COLUMN recall_by_source.p99_ms IS 'The 99th percentile of the milliseconds of its searches.';
COMMENT ON COLUMN recall_by_source.fallbacks IS 'Searches that the record''s text search answered for the source.';

CREATE VIEW recall_dropped AS
SELECT (d.created_at AT TIME ZONE 'UTC')::date AS day,
       d.profile,
       reason.key AS reason,
       coalesce(sum(json_integer(reason.value)), 0) AS count
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.dropped) AS reason
WHERE jsonb_typeof(reason.value) = 'number' AND d.shadow_of IS NULL
GROUP BY 1, 2, 3;

COMMENT ON VIEW recall_dropped IS 'What was found and left out, by reason.';
COMMENT ON COLUMN recall_dropped.reason IS 'Why: excluded, own_turn, near_duplicate, token_budget and so on.';
COMMENT ON COLUMN recall_dropped.count IS 'How many hits.';

-- Each bundle has one first item: they are its bundles, counted without a second look at the table.
CREATE VIEW recall_memory_usage AS
SELECT (d.created_at AT TIME ZONE 'UTC')::date AS day,
       d.tenant,
       item.value AS memory_id,
       count(*) AS selected,
       count(*) FILTER (WHERE item.rank = 1) AS first,
       (sum(count(*) FILTER (WHERE item.rank = 1))
           OVER (PARTITION BY (d.created_at AT TIME ZONE 'UTC')::date, d.tenant))::bigint AS bundles,
       (count(*)::double precision / sum(count(*) FILTER (WHERE item.rank = 1))
           OVER (PARTITION BY (d.created_at AT TIME ZONE 'UTC')::date, d.tenant))::double precision AS share,
       min(d.created_at) AS first_at,
       max(d.created_at) AS last_at
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements_text(d.selected_ids) WITH ORDINALITY AS item (value, rank)
WHERE d.shadow_of IS NULL
GROUP BY 1, 2, 3;

COMMENT ON VIEW recall_memory_usage IS
    'One row for every day, tenant and memory that was in an answer: how often it was. Ask with a condition on day; '
    'for one memory, ask recall_decisions with selected_ids @> ''["id"]''.';
COMMENT ON COLUMN recall_memory_usage.selected IS 'Answers of the day that it was in.';
COMMENT ON COLUMN recall_memory_usage.first IS 'Answers of the day whose best memory it was.';
COMMENT ON COLUMN recall_memory_usage.bundles IS 'Answers of the tenant on that day that held any memory.';
COMMENT ON COLUMN recall_memory_usage.share IS
    'selected / bundles: 0 to 1. Near 1 it is in every answer, whatever was asked.';
COMMENT ON COLUMN recall_memory_usage.first_at IS 'The first of these answers.';
COMMENT ON COLUMN recall_memory_usage.last_at IS 'The latest of them.';

-- Which decision feedback is about: as in decisions/memories.py.
CREATE VIEW recall_feedback_by_profile AS
SELECT (f.at AT TIME ZONE 'UTC')::date AS day,
       d.profile,
       d.profile_hash,
       count(*) AS messages,
       count(DISTINCT d.id) AS decisions,
       sum(cardinality(f.used))::bigint AS used,
       sum(cardinality(f.wrong))::bigint AS wrong,
       sum(cardinality(f.used))::double precision / nullif(sum(cardinality(f.used) + cardinality(f.wrong)), 0) AS used_share
FROM recall_feedback AS f
CROSS JOIN LATERAL (
    (SELECT id, profile, profile_hash FROM recall_decisions
     WHERE f.decision_id IS NOT NULL AND shadow_of IS NULL AND tenant = f.tenant
       AND id = CASE WHEN f.decision_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN f.decision_id::uuid END)
    UNION ALL
    (SELECT id, profile, profile_hash FROM recall_decisions
     WHERE f.decision_id IS NULL AND shadow_of IS NULL AND tenant = f.tenant AND corr_id = f.corr_id
     ORDER BY created_at DESC, id LIMIT 1)
) AS d
GROUP BY 1, 2, 3;

COMMENT ON VIEW recall_feedback_by_profile IS
    'What callers said of the answers of each profile, by the day they said it. Feedback on decisions that are not in '
    'the log any more is not counted.';
COMMENT ON COLUMN recall_feedback_by_profile.day IS 'The day (UTC) of the feedback. A condition on it is answered from an index.';
COMMENT ON COLUMN recall_feedback_by_profile.messages IS 'Messages of feedback.';
COMMENT ON COLUMN recall_feedback_by_profile.decisions IS 'Decisions that they are about.';
COMMENT ON COLUMN recall_feedback_by_profile.used IS 'Memories that were said to be of use.';
COMMENT ON COLUMN recall_feedback_by_profile.wrong IS 'Memories that were said to be wrong.';
COMMENT ON COLUMN recall_feedback_by_profile.used_share IS 'used / (used + wrong): 0 to 1; null where neither was said.';

-- Texts of memories are for orion_reader alone. The views read with the rights of their owner: a reader has no right to
-- the tables below them.
CREATE VIEW recall_texts AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       item.rank,
       item.value AS memory_id,
       CASE WHEN m.id IS NULL THEN 'gone'
            WHEN m.deleted_at IS NOT NULL THEN 'deleted'
            WHEN m.superseded_by IS NOT NULL THEN 'superseded'
            WHEN m.updated_at > d.created_at THEN 'changed'
            ELSE 'unchanged' END AS state,
       CASE WHEN m.deleted_at IS NULL THEN m.text END AS text,
       CASE WHEN m.deleted_at IS NULL THEN m.speaker END AS speaker,
       CASE WHEN m.deleted_at IS NULL THEN m.ts END AS ts
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements_text(d.selected_ids) WITH ORDINALITY AS item (value, rank)
LEFT JOIN memories AS m ON m.tenant = d.tenant AND m.id = item.value;

COMMENT ON VIEW recall_texts IS
    'One row for every item of every answer, with the text of the memory as it is now. For orion_reader and not for '
    'orion_analyst. Ask with a condition on decision_id or created_at.';
COMMENT ON COLUMN recall_texts.tenant IS 'Whose memory it is.';
COMMENT ON COLUMN recall_texts.state IS
    'What became of the memory since: unchanged, changed, superseded (by another), deleted, gone (not in the record).';
COMMENT ON COLUMN recall_texts.text IS 'Its text as it is now; null where it is deleted or gone.';
COMMENT ON COLUMN recall_texts.speaker IS 'Who said it.';
COMMENT ON COLUMN recall_texts.ts IS 'When it happened, else when it was mentioned; null when undated.';

-- CASE keeps the order: the log is only asked for memories that were never counted. It counts, because the planner takes a
-- condition that any row of the log might meet for one that the first rows meet, and reads these without the index.
CREATE VIEW recall_never_selected AS
SELECT m.tenant,
       m.id AS memory_id,
       m.kind,
       m.recorded_at,
       m.text
FROM memories AS m
WHERE m.live
  AND CASE WHEN EXISTS (SELECT FROM memory_access AS a WHERE a.tenant = m.tenant AND a.id = m.id) THEN false
      ELSE (SELECT count(*) FROM recall_decisions AS d
            WHERE d.shadow_of IS NULL AND d.tenant = m.tenant AND d.selected_ids @> jsonb_build_array(m.id)) = 0 END;

COMMENT ON VIEW recall_never_selected IS
    'One row for every memory that is in no answer of the log and was never counted as accessed. For orion_reader and '
    'not for orion_analyst. Ask for one tenant.';
COMMENT ON COLUMN recall_never_selected.kind IS 'Its kind.';
COMMENT ON COLUMN recall_never_selected.recorded_at IS 'When it was stored: a young one has had little time.';
COMMENT ON COLUMN recall_never_selected.text IS 'Its text.';

-- A column of a view without a comment of its own means what the column of that name in the log does, or in the list here.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT v.relname, c.attname, coalesce(named.meaning, col_description(t.attrelid, t.attnum)) AS meaning
        FROM pg_class AS v
        JOIN pg_attribute AS c ON c.attrelid = v.oid AND c.attnum > 0
        LEFT JOIN pg_attribute AS t ON t.attrelid = 'recall_decisions'::regclass AND t.attname = c.attname
        LEFT JOIN (VALUES
            ('decision_id', 'The decision: recall_decisions.id.'),
            ('memory_id', 'The memory.'),
            ('rank', 'The item''s place in the answer, from 1.'),
            ('ranks', 'The rank in every source that found it, from 1: {source: rank}.'),
            ('parts', 'The named parts of the score: {part: value}, 0 to 1.'),
            ('layer', 'The layer of a cascade that it came from; null without a cascade.'),
            ('source', 'The source that ranked it best.'),
            ('day', 'The day (UTC). A condition on it is answered from an index.'),
            ('hour', 'The beginning of the hour. A condition on it is answered from an index.')
        ) AS named (attname, meaning) ON named.attname = c.attname
        WHERE v.relkind = 'v' AND v.relname LIKE 'recall\_%' AND pg_table_is_visible(v.oid)
          AND col_description(v.oid, c.attnum) IS NULL
    LOOP
        EXECUTE format('COMMENT ON COLUMN %I.%I IS %L', one.relname, one.attname, one.meaning);
    END LOOP;
END
$$;

-- Analysts read decisions, not memories: GRANT orion_analyst TO somebody. Readers read texts of memories, too. Roles belong to
-- the whole server: they may be there already, and a login that cannot make one says so and goes on.
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['orion_analyst', 'orion_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = named) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', named);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN NULL;  -- another database was quicker
                WHEN insufficient_privilege THEN
                    RAISE NOTICE '% was not created: % may not create roles. Run deploy/postgres/roles.sql as an '
                        'administrator.', named, current_user;
                    CONTINUE;
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), named);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_decisions, recall_profiles,
            recall_queries, recall_selected, recall_candidates, recall_layers, recall_stage_ms, recall_trials,
            recall_follow_ups, recall_by_profile_hour, recall_by_source, recall_dropped, recall_memory_usage, recall_feedback_by_profile
            TO orion_analyst;
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
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_reader') THEN
        GRANT SELECT ON recall_texts, recall_never_selected TO orion_reader;
        BEGIN
            IF NOT pg_has_role('orion_reader', 'orion_analyst', 'MEMBER') THEN
                GRANT orion_analyst TO orion_reader;
            END IF;
        EXCEPTION
            WHEN insufficient_privilege OR undefined_object THEN
                RAISE NOTICE 'orion_reader is not a member of orion_analyst: grant it as an administrator.';
            WHEN duplicate_object OR unique_violation OR internal_error THEN NULL;  -- another database was quicker
        END;
    END IF;
END
$$;
