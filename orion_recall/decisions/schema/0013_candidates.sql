-- The candidates of a share of the recalls: every part of their scores, and what was left out for which other.
ALTER TABLE recall_decisions ADD COLUMN candidates jsonb;

COMMENT ON COLUMN recall_decisions.candidates IS
    'The candidates, best first, where they were kept: [{id, source, ranks, fused, place, score, parts, weights, kept, dropped, '
    'dropped_for, layer}]; null where they were not. The view recall_candidates has them in columns.';

-- By the memory, also by one that another was dropped for: what is forgotten goes from them.
CREATE INDEX recall_decisions_candidates ON recall_decisions USING gin (
    (jsonb_path_query_array(candidates, '$[*].id') || jsonb_path_query_array(candidates, '$[*].dropped_for')) jsonb_path_ops
) WHERE candidates IS NOT NULL;

CREATE VIEW recall_candidates AS
SELECT d.id AS decision_id,
       d.created_at,
       d.tenant,
       d.profile,
       d.profile_hash,
       item.number,
       item.value ->> 'id' AS memory_id,
       CASE jsonb_typeof(item.value -> 'place') WHEN 'number' THEN (item.value ->> 'place')::numeric::integer END AS place,
       CASE jsonb_typeof(item.value -> 'kept') WHEN 'boolean' THEN (item.value ->> 'kept')::boolean END AS kept,
       item.value ->> 'dropped' AS dropped,
       item.value ->> 'dropped_for' AS dropped_for,
       CASE jsonb_typeof(item.value -> 'score')
           WHEN 'number' THEN (item.value ->> 'score')::double precision END AS score,
       CASE jsonb_typeof(item.value -> 'fused')
           WHEN 'number' THEN (item.value ->> 'fused')::double precision END AS fused,
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
COMMENT ON COLUMN recall_candidates.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_candidates.created_at IS 'When the decision was taken. A condition on it is answered from an index.';
COMMENT ON COLUMN recall_candidates.tenant IS 'Whose memories were searched.';
COMMENT ON COLUMN recall_candidates.profile IS 'The profile that was used.';
COMMENT ON COLUMN recall_candidates.profile_hash IS 'A hash of the profile''s content: recall_profiles has the text.';
COMMENT ON COLUMN recall_candidates.number IS 'The candidate''s number in the list of the decision, from 1.';
COMMENT ON COLUMN recall_candidates.memory_id IS 'The memory.';
COMMENT ON COLUMN recall_candidates.place IS 'Its place in the final order, from 1; null: it was dropped before that.';
COMMENT ON COLUMN recall_candidates.kept IS 'Whether it was handed over.';
COMMENT ON COLUMN recall_candidates.dropped IS 'Why it was not: near_duplicate, max_total_items and so on; null where it was.';
COMMENT ON COLUMN recall_candidates.dropped_for IS 'The memory that was kept in its place, if any.';
COMMENT ON COLUMN recall_candidates.score IS 'The final score, 0 to 1; null: it was dropped before it had one.';
COMMENT ON COLUMN recall_candidates.fused IS 'The score after the fusion of the lists, 0 to 1.';
COMMENT ON COLUMN recall_candidates.source IS 'The source that ranked it best.';
COMMENT ON COLUMN recall_candidates.ranks IS 'The rank in every source that found it, from 1: {source: rank}.';
COMMENT ON COLUMN recall_candidates.parts IS 'The named parts of the score: {part: value}, 0 to 1.';
COMMENT ON COLUMN recall_candidates.weights IS 'The weights of the parts: {part: weight}. The score is the mean of the parts by these.';
COMMENT ON COLUMN recall_candidates.layer IS 'The layer of a cascade that it came from; null without a cascade.';

-- As for the other views; where the role could not be made, an administrator grants it with them.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_candidates TO orion_analyst;
    END IF;
END
$$;
