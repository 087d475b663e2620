-- A number in a JSON column may be larger than the type of a view's column (10^30, or of a thousand digits), and one row
-- of it made every question to the view fail. It is null there now. A sum of integers fits a bigint. The
-- bodies are expressions, not texts: what they call does not depend on the reader's search_path.
CREATE FUNCTION json_integer(value jsonb) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN value::numeric BETWEEN -2147483648 AND 2147483647 THEN value::numeric::integer END END;

CREATE FUNCTION json_bigint(value jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN value::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN value::numeric::bigint END END;

-- JSON of Postgres has no exponents: what is out of range, also what is too small, has more than 300 digits.
CREATE FUNCTION json_double(value jsonb) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE jsonb_typeof(value) WHEN 'number' THEN
        CASE WHEN length(value::text) < 300 THEN value::text::double precision END END;

COMMENT ON FUNCTION json_integer(jsonb) IS 'The number, rounded; null where it is none, or does not fit an integer.';
COMMENT ON FUNCTION json_bigint(jsonb) IS 'The number, rounded; null where it is none, or does not fit a bigint.';
COMMENT ON FUNCTION json_double(jsonb) IS 'The number; null where it is none, or has 300 digits or more.';
-- A view calls functions with the rights of its reader.
GRANT EXECUTE ON FUNCTION json_integer(jsonb), json_bigint(jsonb), json_double(jsonb) TO PUBLIC;

-- To replace a view takes its options: with security_invoker (deploy/postgres/analysts-by-tenant.sql) analysts see their
-- tenants alone. They are set again below.
SELECT set_config('orion_recall.view_options', coalesce(jsonb_object_agg(relname, array_to_string(reloptions, ', ')), '{}')::text, true)
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v' AND reloptions IS NOT NULL;

CREATE OR REPLACE VIEW recall_by_source AS
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

CREATE OR REPLACE VIEW recall_dropped AS
SELECT (d.created_at AT TIME ZONE 'UTC')::date AS day,
       d.profile,
       reason.key AS reason,
       coalesce(sum(json_integer(reason.value)), 0) AS count
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.dropped) AS reason
WHERE jsonb_typeof(reason.value) = 'number' AND d.shadow_of IS NULL
GROUP BY 1, 2, 3;

CREATE OR REPLACE VIEW recall_selected AS
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

CREATE OR REPLACE VIEW recall_layers AS
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

-- By the whole column, which has these six fields: the index is in its order.
CREATE OR REPLACE VIEW recall_canaries AS
SELECT canary ->> 'profile' AS profile,
       canary ->> 'canary' AS canary_profile,
       canary ->> 'trial' AS trial,
       json_integer(canary -> 'step') AS step,
       canary ->> 'variant' AS variant,
       json_double(canary -> 'share') AS share,
       min(created_at) AS first_at,
       max(created_at) AS last_at,
       count(*) AS queries,
       avg((outcome = 'empty')::int)::double precision AS empty_rate,
       avg((outcome = 'degraded')::int)::double precision AS degraded_rate,
       avg((outcome = 'failed')::int)::double precision AS error_rate,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY latency_ms) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms) AS p99_ms
FROM recall_decisions
WHERE canary IS NOT NULL AND shadow_of IS NULL AND outcome IN ('ok', 'empty', 'degraded', 'failed')
GROUP BY canary;

CREATE OR REPLACE VIEW recall_queries AS
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
       (SELECT coalesce(sum(json_integer(each.value)), 0)
        FROM jsonb_each(d.backend_counts) AS each) AS found,
       jsonb_array_length(d.selected_ids) AS kept,
       d.tokens,
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

CREATE OR REPLACE VIEW recall_unsure AS
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
    SELECT coalesce(sum(json_integer(each.value)), 0) AS found
    FROM jsonb_each(d.backend_counts) AS each
) AS hits
WHERE d.shadow_of IS NULL AND (d.no_answer IS NOT NULL OR d.outcome = 'empty' OR d.confidence < 0.5) AND hits.found > 0;

CREATE OR REPLACE VIEW recall_stage_ms AS
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

CREATE OR REPLACE VIEW recall_candidates AS
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

DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN SELECT key AS view, value AS options FROM jsonb_each_text(current_setting('orion_recall.view_options')::jsonb) LOOP
        EXECUTE format('ALTER VIEW %I SET (%s)', kept.view, kept.options);
    END LOOP;
END
$$;

-- 0017_canaries_from_an_index.sql has made another in its place.
DROP INDEX recall_decisions_canary;
