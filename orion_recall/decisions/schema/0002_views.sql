-- Values inside the JSON columns are read only where they have the type they should have: a view never fails on
-- a row that another version wrote.

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
GROUP BY 1, 2;

COMMENT ON VIEW recall_by_profile_hour IS 'How each profile did in each hour (UTC).';
COMMENT ON COLUMN recall_by_profile_hour.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_by_profile_hour.hour IS 'The beginning of the hour. A condition on it is answered from an index.';
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
           CASE jsonb_typeof(search.value -> 'count')
               WHEN 'number' THEN (search.value ->> 'count')::numeric END AS hits,
           CASE jsonb_typeof(search.value -> 'ms')
               WHEN 'number' THEN (search.value ->> 'ms')::double precision END AS ms,
           false AS selected
    FROM recall_decisions AS d
    CROSS JOIN LATERAL jsonb_each(d.sources) AS search
    UNION ALL
    SELECT date_trunc('hour', d.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC',
           item.value ->> 'source', NULL, NULL, NULL, true
    FROM recall_decisions AS d
    CROSS JOIN LATERAL jsonb_array_elements(d.selected) AS item
    WHERE item.value ->> 'source' IS NOT NULL
)
SELECT hour,
       source,
       count(*) FILTER (WHERE status <> 'off') AS searches,
       count(*) FILTER (WHERE status = 'ok') AS ok,
       count(*) FILTER (WHERE status = 'empty') AS empty,
       count(*) FILTER (WHERE status = 'late') AS late,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status = 'off') AS off,
       coalesce(sum(hits), 0)::bigint AS hits,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS median_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS p95_ms,
       count(*) FILTER (WHERE selected) AS selected,
       (count(*) FILTER (WHERE selected)
           / nullif(sum(count(*) FILTER (WHERE selected)) OVER (PARTITION BY hour), 0))::double precision
           AS share_of_selected
FROM observed
GROUP BY hour, source;

COMMENT ON VIEW recall_by_source IS 'How each source did in each hour (UTC).';
COMMENT ON COLUMN recall_by_source.hour IS 'The beginning of the hour. A condition on it is answered from an index.';
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

CREATE VIEW recall_dropped AS
SELECT (d.created_at AT TIME ZONE 'UTC')::date AS day,
       d.profile,
       reason.key AS reason,
       sum(CASE jsonb_typeof(reason.value) WHEN 'number' THEN (reason.value #>> '{}')::numeric END)::bigint AS count
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.dropped) AS reason
WHERE jsonb_typeof(reason.value) = 'number'
GROUP BY 1, 2, 3;

COMMENT ON VIEW recall_dropped IS 'What was found and left out, by reason.';
COMMENT ON COLUMN recall_dropped.day IS 'The day (UTC). A condition on it is answered from an index.';
COMMENT ON COLUMN recall_dropped.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_dropped.reason IS 'Why: excluded, own_turn, near_duplicate, token_budget and so on.';
COMMENT ON COLUMN recall_dropped.count IS 'How many hits.';

CREATE VIEW recall_selected AS
SELECT d.id AS decision_id,
       d.created_at,
       d.corr_id,
       d.profile,
       item.rank,
       item.value ->> 'id' AS memory_id,
       item.value ->> 'source' AS source,
       CASE jsonb_typeof(item.value -> 'score')
           WHEN 'number' THEN (item.value ->> 'score')::double precision END AS score,
       item.value -> 'parts' AS parts,
       item.value -> 'ranks' AS ranks
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(d.selected) WITH ORDINALITY AS item (value, rank);

COMMENT ON VIEW recall_selected IS 'One row for every item of every answer.';
COMMENT ON COLUMN recall_selected.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_selected.created_at IS 'When the decision was taken.';
COMMENT ON COLUMN recall_selected.corr_id IS 'The correlation id of query and reply.';
COMMENT ON COLUMN recall_selected.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_selected.rank IS 'The item''s place in the answer, from 1.';
COMMENT ON COLUMN recall_selected.memory_id IS 'The memory.';
COMMENT ON COLUMN recall_selected.source IS 'The source that ranked it best.';
COMMENT ON COLUMN recall_selected.score IS 'The final score: 0 to 1.';
COMMENT ON COLUMN recall_selected.parts IS 'The named parts of the score: {part: value}.';
COMMENT ON COLUMN recall_selected.ranks IS 'The rank in every source that found it, from 1: {source: rank}.';
