-- Views that answer what is asked of the log again and again, and a role that may read texts of memories beside it.
-- Values inside the JSON columns are read only where they have the type they should have, as in 0002_views.sql; what
-- nobody was sent (shadows) counts in none of them.

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
       (SELECT coalesce(sum(CASE jsonb_typeof(each.value) WHEN 'number' THEN (each.value #>> '{}')::numeric END), 0)
        FROM jsonb_each(d.backend_counts) AS each)::bigint AS found,
       jsonb_array_length(d.selected_ids) AS kept,
       d.tokens,
       d.latency_ms,
       d.deliveries,
       CASE jsonb_typeof(d.read_at -> 'index') WHEN 'number' THEN (d.read_at ->> 'index')::numeric::bigint END AS index_position,
       CASE jsonb_typeof(d.read_at -> 'graph') WHEN 'number' THEN (d.read_at ->> 'graph')::numeric::bigint END AS graph_position,
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
COMMENT ON COLUMN recall_queries.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_queries.created_at IS 'When the decision was taken. A condition on it is answered from an index.';
COMMENT ON COLUMN recall_queries.corr_id IS 'The correlation id of query and reply.';
COMMENT ON COLUMN recall_queries.tenant IS 'Whose memories were searched.';
COMMENT ON COLUMN recall_queries.scope IS 'session, user or global (within the tenant).';
COMMENT ON COLUMN recall_queries.session_id IS 'The session the query belongs to.';
COMMENT ON COLUMN recall_queries.user_id IS 'The user of scope user.';
COMMENT ON COLUMN recall_queries.node_id IS 'The node of the mesh that asked.';
COMMENT ON COLUMN recall_queries.verb IS 'The cognitive verb that asked.';
COMMENT ON COLUMN recall_queries.profile IS 'The profile that was used, after any fallback.';
COMMENT ON COLUMN recall_queries.profile_hash IS 'A hash of the profile''s content: recall_profiles has the text.';
COMMENT ON COLUMN recall_queries.profile_fallback IS
    'True when the profile asked for is not known and the default one was used.';
COMMENT ON COLUMN recall_queries.strategy IS 'The class of question whose strategy of the profile was used.';
COMMENT ON COLUMN recall_queries.class IS 'The class of question that was understood.';
COMMENT ON COLUMN recall_queries.language IS 'The language of the question.';
COMMENT ON COLUMN recall_queries.query IS
    'The fragment (its first 4,000 characters); where query text is not kept, blake2b: and 32 hex digits, or nothing.';
COMMENT ON COLUMN recall_queries.options IS 'The options of the query, as it gave them: {k, kinds, …}; null without any.';
COMMENT ON COLUMN recall_queries.clock IS 'What was now for the query: ISO 8601, in UTC.';
COMMENT ON COLUMN recall_queries.zone IS 'The time zone in which its words for times were understood.';
COMMENT ON COLUMN recall_queries.outcome IS
    'The first that applies: invalid, expired, refused, failed (no source answered), degraded, empty, ok.';
COMMENT ON COLUMN recall_queries.no_answer IS 'Why nothing was handed over although something was found; null else.';
COMMENT ON COLUMN recall_queries.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item to be sure of.';
COMMENT ON COLUMN recall_queries.answer_probability IS
    'The probability that anything found answers the question: 0 to 1; null where that could not be told.';
COMMENT ON COLUMN recall_queries.found IS 'Hits of all sources together.';
COMMENT ON COLUMN recall_queries.kept IS 'Memories in the answer.';
COMMENT ON COLUMN recall_queries.tokens IS 'Tokens of the rendered answer.';
COMMENT ON COLUMN recall_queries.latency_ms IS 'Milliseconds from taking the query up to the finished answer.';
COMMENT ON COLUMN recall_queries.deliveries IS 'How often the query was handed to a worker: above 1 one was lost.';
COMMENT ON COLUMN recall_queries.index_position IS 'The position in the outbox that the index had applied.';
COMMENT ON COLUMN recall_queries.graph_position IS 'The position in the outbox that the graph had applied.';
COMMENT ON COLUMN recall_queries.version IS 'The version of the program that decided.';
COMMENT ON COLUMN recall_queries.model IS 'The embedding model.';
COMMENT ON COLUMN recall_queries.weights IS 'The first digits of the hash of the model''s weights.';
COMMENT ON COLUMN recall_queries.extractor IS 'What finds entities and statements: light, spacy, llm.';
COMMENT ON COLUMN recall_queries.not_replayable IS 'Why the query cannot be asked again as it was; null where it can.';
COMMENT ON COLUMN recall_queries.worker IS 'The worker that answered.';

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
COMMENT ON COLUMN recall_memory_usage.day IS 'The day (UTC). A condition on it is answered from an index.';
COMMENT ON COLUMN recall_memory_usage.tenant IS 'The tenant.';
COMMENT ON COLUMN recall_memory_usage.memory_id IS 'The memory.';
COMMENT ON COLUMN recall_memory_usage.selected IS 'Answers of the day that it was in.';
COMMENT ON COLUMN recall_memory_usage.first IS 'Answers of the day whose best memory it was.';
COMMENT ON COLUMN recall_memory_usage.bundles IS 'Answers of the tenant on that day that held any memory.';
COMMENT ON COLUMN recall_memory_usage.share IS
    'selected / bundles: 0 to 1. Near 1 it is in every answer, whatever was asked.';
COMMENT ON COLUMN recall_memory_usage.first_at IS 'The first of these answers.';
COMMENT ON COLUMN recall_memory_usage.last_at IS 'The latest of them.';

CREATE VIEW recall_unsure AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.profile,
       d.understood ->> 'class' AS class,
       d.query,
       CASE WHEN d.no_answer IS NOT NULL THEN 'no_answer'
            WHEN d.outcome = 'empty' THEN 'nothing_kept'
            ELSE 'low_confidence' END AS why,
       d.no_answer ->> 'reason' AS no_answer,
       d.confidence,
       d.answer_probability,
       hits.found,
       jsonb_array_length(d.selected_ids) AS kept,
       d.dropped
FROM recall_decisions AS d
CROSS JOIN LATERAL (
    SELECT coalesce(sum(CASE jsonb_typeof(each.value) WHEN 'number' THEN (each.value #>> '{}')::numeric END), 0)::bigint AS found
    FROM jsonb_each(d.backend_counts) AS each
) AS hits
WHERE d.shadow_of IS NULL AND (d.no_answer IS NOT NULL OR d.outcome = 'empty' OR d.confidence < 0.5) AND hits.found > 0;

COMMENT ON VIEW recall_unsure IS
    'One row for every query that was not answered for sure although something was found. '
    'Ask for the latest: ORDER BY created_at DESC LIMIT 50.';
COMMENT ON COLUMN recall_unsure.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_unsure.created_at IS 'When the decision was taken. A condition on it is answered from an index.';
COMMENT ON COLUMN recall_unsure.tenant IS 'Whose memories were searched.';
COMMENT ON COLUMN recall_unsure.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_unsure.class IS 'The class of question that was understood.';
COMMENT ON COLUMN recall_unsure.query IS 'The fragment, as in recall_decisions.';
COMMENT ON COLUMN recall_unsure.why IS
    'The first that applies: no_answer (withheld by the profile), nothing_kept (all hits were left out), '
    'low_confidence (under 0.5).';
COMMENT ON COLUMN recall_unsure.no_answer IS 'Why it was withheld; null else.';
COMMENT ON COLUMN recall_unsure.confidence IS 'How sure the answer was: 0 to 1; null without an item.';
COMMENT ON COLUMN recall_unsure.answer_probability IS
    'The probability that anything found answers the question: 0 to 1; null where that could not be told.';
COMMENT ON COLUMN recall_unsure.found IS 'Hits of all sources together.';
COMMENT ON COLUMN recall_unsure.kept IS 'Memories in the answer.';
COMMENT ON COLUMN recall_unsure.dropped IS 'How many of the hits were left out, by reason: {reason: count}.';

-- The condition of the view on the table's own columns: few rows, and the latest first.
CREATE INDEX recall_decisions_unsure ON recall_decisions (created_at)
    WHERE shadow_of IS NULL AND (no_answer IS NOT NULL OR outcome = 'empty' OR confidence < 0.5);

CREATE VIEW recall_stage_ms AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.profile,
       d.outcome,
       stage.key AS stage,
       (stage.value #>> '{}')::double precision AS ms
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.stage_ms) AS stage
WHERE d.shadow_of IS NULL AND jsonb_typeof(stage.value) = 'number';

COMMENT ON VIEW recall_stage_ms IS
    'One row for every stage of every query. Ask with a condition on created_at.';
COMMENT ON COLUMN recall_stage_ms.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_stage_ms.created_at IS 'When the decision was taken. A condition on it is answered from an index.';
COMMENT ON COLUMN recall_stage_ms.tenant IS 'Whose memories were searched.';
COMMENT ON COLUMN recall_stage_ms.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_stage_ms.outcome IS 'How the query was answered.';
COMMENT ON COLUMN recall_stage_ms.stage IS 'The stage; total is all of them.';
COMMENT ON COLUMN recall_stage_ms.ms IS 'Its milliseconds.';

-- Which decision feedback is about: as in decisions/feedback.py.
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
COMMENT ON COLUMN recall_feedback_by_profile.profile IS 'The profile that answered.';
COMMENT ON COLUMN recall_feedback_by_profile.profile_hash IS 'Its content: recall_profiles has the text.';
COMMENT ON COLUMN recall_feedback_by_profile.messages IS 'Messages of feedback.';
COMMENT ON COLUMN recall_feedback_by_profile.decisions IS 'Decisions that they are about.';
COMMENT ON COLUMN recall_feedback_by_profile.used IS 'Memories that were said to be of use.';
COMMENT ON COLUMN recall_feedback_by_profile.wrong IS 'Memories that were said to be wrong.';
COMMENT ON COLUMN recall_feedback_by_profile.used_share IS 'used / (used + wrong): 0 to 1; null where neither was said.';

CREATE INDEX recall_feedback_day ON recall_feedback (((at AT TIME ZONE 'UTC')::date));

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
COMMENT ON COLUMN recall_texts.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_texts.created_at IS 'When the decision was taken.';
COMMENT ON COLUMN recall_texts.tenant IS 'Whose memory it is.';
COMMENT ON COLUMN recall_texts.rank IS 'The item''s place in the answer, from 1.';
COMMENT ON COLUMN recall_texts.memory_id IS 'The memory.';
COMMENT ON COLUMN recall_texts.state IS
    'What became of the memory since: unchanged, changed, superseded (by another), deleted, gone (not in the record).';
COMMENT ON COLUMN recall_texts.text IS 'Its text as it is now; null where it is deleted or gone.';
COMMENT ON COLUMN recall_texts.speaker IS 'Who said it.';
COMMENT ON COLUMN recall_texts.ts IS 'When it happened, else when it was mentioned; null when undated.';

CREATE VIEW recall_never_selected AS
SELECT m.tenant,
       m.id AS memory_id,
       m.kind,
       m.recorded_at,
       m.text
FROM memories AS m
WHERE m.live
  AND NOT EXISTS (SELECT FROM memory_access AS a WHERE a.tenant = m.tenant AND a.id = m.id)
  AND NOT EXISTS (SELECT FROM recall_decisions AS d
                  WHERE d.shadow_of IS NULL AND d.tenant = m.tenant AND d.selected_ids @> jsonb_build_array(m.id));

COMMENT ON VIEW recall_never_selected IS
    'One row for every memory that is in no answer of the log and was never counted as accessed. For orion_reader and '
    'not for orion_analyst. Ask for one tenant.';
COMMENT ON COLUMN recall_never_selected.tenant IS 'The tenant.';
COMMENT ON COLUMN recall_never_selected.memory_id IS 'The memory.';
COMMENT ON COLUMN recall_never_selected.kind IS 'Its kind.';
COMMENT ON COLUMN recall_never_selected.recorded_at IS 'When it was stored: a young one has had little time.';
COMMENT ON COLUMN recall_never_selected.text IS 'Its text.';

-- As in 0003_roles.sql: the roles may be there already, and this login may not be allowed to make one.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_queries, recall_memory_usage, recall_unsure, recall_stage_ms, recall_feedback_by_profile
            TO orion_analyst;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_reader') THEN
        BEGIN
            CREATE ROLE orion_reader NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- another database was quicker
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'orion_reader was not created: % may not create roles. Create it as an administrator, '
                    'grant it orion_analyst, and SELECT on recall_texts and recall_never_selected.', current_user;
                RETURN;
        END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO orion_reader', current_schema());
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
END
$$;
