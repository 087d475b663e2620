-- Which profile answered where one has a canary, and whether a session asked again.
ALTER TABLE recall_decisions ADD COLUMN canary jsonb;

COMMENT ON COLUMN recall_decisions.canary IS
    'Where the profile that the query came to has a canary: {trial, profile, canary, variant, step, share}; variant (canary or '
    'control) is which of the two answered, share that of the sessions the canary answers, 0 once it was taken back.';

CREATE INDEX recall_decisions_canary ON recall_decisions ((canary ->> 'trial')) WHERE canary IS NOT NULL;

CREATE VIEW recall_canaries AS
SELECT canary ->> 'profile' AS profile,
       canary ->> 'canary' AS canary_profile,
       canary ->> 'trial' AS trial,
       (canary ->> 'step')::integer AS step,
       canary ->> 'variant' AS variant,
       (canary ->> 'share')::double precision AS share,
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
GROUP BY 1, 2, 3, 4, 5, 6;

COMMENT ON VIEW recall_canaries IS
    'One row for each trial of a canary, step, share and variant: compare the two variants of a step.';
COMMENT ON COLUMN recall_canaries.profile IS 'The control: the profile that the queries came to.';
COMMENT ON COLUMN recall_canaries.canary_profile IS 'The canary: the profile that answers a share of the sessions.';
COMMENT ON COLUMN recall_canaries.trial IS 'The same until either profile is edited.';
COMMENT ON COLUMN recall_canaries.step IS 'The step of the trial, from 1.';
COMMENT ON COLUMN recall_canaries.variant IS 'Which of the two answered: canary or control.';
COMMENT ON COLUMN recall_canaries.share IS 'The share of the sessions that the canary answers; 0: it was taken back.';
COMMENT ON COLUMN recall_canaries.first_at IS 'The first answer.';
COMMENT ON COLUMN recall_canaries.last_at IS 'The latest answer.';
COMMENT ON COLUMN recall_canaries.queries IS 'Queries that were recalled.';
COMMENT ON COLUMN recall_canaries.empty_rate IS 'The share of them that nothing was found for.';
COMMENT ON COLUMN recall_canaries.degraded_rate IS 'The share of them where a source was missing.';
COMMENT ON COLUMN recall_canaries.error_rate IS 'The share of them that failed.';
COMMENT ON COLUMN recall_canaries.p50_ms IS 'The median of the milliseconds up to the finished answer.';
COMMENT ON COLUMN recall_canaries.p95_ms IS 'Their 95th percentile.';
COMMENT ON COLUMN recall_canaries.p99_ms IS 'Their 99th percentile.';

-- The same, with the 99th percentile of each source's milliseconds.
CREATE OR REPLACE VIEW recall_by_source AS
WITH observed AS (
    SELECT date_trunc('hour', d.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS hour,
           search.key AS source,
           search.value ->> 'status' AS status,
           CASE jsonb_typeof(search.value -> 'count')
               WHEN 'number' THEN (search.value ->> 'count')::numeric END AS hits,
           CASE jsonb_typeof(search.value -> 'ms')
               WHEN 'number' THEN (search.value ->> 'ms')::double precision END AS ms,
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
       coalesce(sum(hits), 0)::bigint AS hits,
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

COMMENT ON COLUMN recall_by_source.p99_ms IS 'The 99th percentile of the milliseconds of its searches.';
COMMENT ON COLUMN recall_by_source.fallbacks IS 'Searches that the record''s text search answered for the source.';

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
COMMENT ON COLUMN recall_follow_ups.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_follow_ups.created_at IS 'When it was taken.';
COMMENT ON COLUMN recall_follow_ups.tenant IS 'The tenant.';
COMMENT ON COLUMN recall_follow_ups.session_id IS 'The session.';
COMMENT ON COLUMN recall_follow_ups.profile IS 'The profile that answered.';
COMMENT ON COLUMN recall_follow_ups.trial IS 'The trial of a canary; null without one.';
COMMENT ON COLUMN recall_follow_ups.variant IS 'Which of its profiles answered: canary or control.';
COMMENT ON COLUMN recall_follow_ups.next_id IS 'The next decision of the session; null when it is the last.';
COMMENT ON COLUMN recall_follow_ups.seconds IS 'Seconds until the next.';
COMMENT ON COLUMN recall_follow_ups.shared_words IS
    'The share of its words of four letters and more that the next query has, too: 0 to 1.';

-- As for the other views; where the role could not be made, an administrator grants it with the others.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_canaries, recall_follow_ups TO orion_analyst;
    END IF;
END
$$;
