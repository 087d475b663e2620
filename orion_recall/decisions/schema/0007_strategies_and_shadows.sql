-- By which of a profile's strategies a query was recalled, and queries that were recalled once more, unseen.
ALTER TABLE recall_decisions ADD COLUMN strategy text;
ALTER TABLE recall_decisions ADD COLUMN shadow_of uuid;

COMMENT ON TABLE recall_decisions IS
    'One row for every recall.query.v1, also the empty, invalid, expired, refused and failed ones, and one more '
    '(with shadow_of) for each that a shadow profile recalled as well. Times are UTC.';
COMMENT ON COLUMN recall_decisions.strategy IS
    'The class of question whose strategy of the profile was used; null where the profile has none for it.';
COMMENT ON COLUMN recall_decisions.shadow_of IS
    'The id of the decision that answered, where this one was taken in its shadow: nobody was sent it.';
COMMENT ON COLUMN recall_decisions.understood IS
    'What was understood of the query: {time: {intervals: [{from, until, kind, words}], asks_when, session}, class, '
    'class_words, language, people, entities: [{name, kind}]}; from and until are half-open, in UTC, null where open; '
    'words, class_words, people and entities are absent where query text is not kept.';

CREATE INDEX recall_decisions_shadow_of ON recall_decisions USING hash (shadow_of) WHERE shadow_of IS NOT NULL;

-- What nobody was sent counts in no figure of what was answered.
CREATE OR REPLACE VIEW recall_by_profile_hour AS
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

CREATE OR REPLACE VIEW recall_by_source AS
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
    WHERE d.shadow_of IS NULL
    UNION ALL
    SELECT date_trunc('hour', d.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC',
           item.value ->> 'source', NULL, NULL, NULL, true
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
       coalesce(sum(hits), 0)::bigint AS hits,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS median_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) FILTER (WHERE status <> 'off') AS p95_ms,
       count(*) FILTER (WHERE selected) AS selected,
       (count(*) FILTER (WHERE selected)
           / nullif(sum(count(*) FILTER (WHERE selected)) OVER (PARTITION BY hour), 0))::double precision
           AS share_of_selected
FROM observed
GROUP BY hour, source;

CREATE OR REPLACE VIEW recall_dropped AS
SELECT (d.created_at AT TIME ZONE 'UTC')::date AS day,
       d.profile,
       reason.key AS reason,
       sum(CASE jsonb_typeof(reason.value) WHEN 'number' THEN (reason.value #>> '{}')::numeric END)::bigint AS count
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_each(d.dropped) AS reason
WHERE jsonb_typeof(reason.value) = 'number' AND d.shadow_of IS NULL
GROUP BY 1, 2, 3;

CREATE VIEW recall_shadows AS
SELECT first.id AS decision_id,
       shadow.id AS shadow_id,
       first.created_at,
       first.profile,
       shadow.profile AS shadow_profile,
       first.outcome,
       shadow.outcome AS shadow_outcome,
       common.in_both,
       common.in_either,
       CASE WHEN common.in_either > 0 THEN common.in_both::double precision / common.in_either END AS overlap,
       first.selected_ids -> 0 IS NOT DISTINCT FROM shadow.selected_ids -> 0 AS same_first,
       first.latency_ms,
       shadow.latency_ms AS shadow_latency_ms
FROM recall_decisions AS shadow
JOIN recall_decisions AS first ON first.id = shadow.shadow_of
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE id IN (SELECT jsonb_array_elements_text(shadow.selected_ids))
                              AND id IN (SELECT jsonb_array_elements_text(first.selected_ids))) AS in_both,
           count(*) AS in_either
    FROM (SELECT jsonb_array_elements_text(first.selected_ids) AS id
          UNION
          SELECT jsonb_array_elements_text(shadow.selected_ids)) AS named
) AS common
WHERE shadow.shadow_of IS NOT NULL;

COMMENT ON VIEW recall_shadows IS 'One row for every query that a shadow profile recalled as well.';
COMMENT ON COLUMN recall_shadows.decision_id IS 'The decision that answered: recall_decisions.id.';
COMMENT ON COLUMN recall_shadows.shadow_id IS 'The decision in its shadow: recall_decisions.id.';
COMMENT ON COLUMN recall_shadows.created_at IS 'When the one that answered was taken.';
COMMENT ON COLUMN recall_shadows.profile IS 'The profile that answered.';
COMMENT ON COLUMN recall_shadows.shadow_profile IS 'The profile in the shadow.';
COMMENT ON COLUMN recall_shadows.outcome IS 'How the query was answered.';
COMMENT ON COLUMN recall_shadows.shadow_outcome IS 'How the shadow would have answered it.';
COMMENT ON COLUMN recall_shadows.in_both IS 'Memories that both selected.';
COMMENT ON COLUMN recall_shadows.in_either IS 'Memories that one of them selected, or both.';
COMMENT ON COLUMN recall_shadows.overlap IS 'in_both / in_either (Jaccard): 0 to 1; null when neither selected any.';
COMMENT ON COLUMN recall_shadows.same_first IS 'Whether the best memory is the same, or neither has one.';
COMMENT ON COLUMN recall_shadows.latency_ms IS 'Milliseconds up to the finished answer.';
COMMENT ON COLUMN recall_shadows.shadow_latency_ms IS
    'Milliseconds of the recall in the shadow, which finds the question''s vector made already.';

-- As for the other views; where the role could not be made, an administrator grants it with the others.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_shadows TO orion_analyst;
    END IF;
END
$$;
