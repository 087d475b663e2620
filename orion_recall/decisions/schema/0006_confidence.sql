-- How sure answers were, the layers that cascades went through, and what was withheld.
ALTER TABLE recall_decisions ADD COLUMN confidence double precision;
ALTER TABLE recall_decisions ADD COLUMN cascade jsonb;
ALTER TABLE recall_decisions ADD COLUMN no_answer jsonb;

COMMENT ON COLUMN recall_decisions.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item to be sure of.';
COMMENT ON COLUMN recall_decisions.cascade IS
    'The way through the layers of memory, null without a cascade: {primary_layer, primary_confidence, cascaded_to, '
    'cascade_confidences, final_confidence, threshold, depth, max_depth, ended: confident | depth | no_layer | deadline, '
    'trigger, reason, merge_strategy, combined: {layer: items}, path: [{layer, depth, hits, confidence, ms, late, not_asked}]}.';
COMMENT ON COLUMN recall_decisions.no_answer IS
    'Why nothing was handed over although something was found: {reason, near_misses}; null else.';
COMMENT ON COLUMN recall_decisions.selected IS
    'The items of the answer, best first: [{id, source, score, parts: {part: value}, ranks: {source: rank}, confidence: '
    '{overall, level, and its five factors}, layer}].';

CREATE OR REPLACE VIEW recall_selected AS
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
       item.value -> 'ranks' AS ranks,
       CASE jsonb_typeof(item.value -> 'confidence' -> 'overall')
           WHEN 'number' THEN (item.value -> 'confidence' ->> 'overall')::double precision END AS confidence,
       item.value ->> 'layer' AS layer
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(d.selected) WITH ORDINALITY AS item (value, rank);

COMMENT ON COLUMN recall_selected.confidence IS 'How sure the item was: 0 to 1.';
COMMENT ON COLUMN recall_selected.layer IS 'The layer of memory it came from; null without a cascade.';

CREATE VIEW recall_layers AS
SELECT d.id AS decision_id,
       d.created_at,
       d.profile,
       step.place,
       step.value ->> 'layer' AS layer,
       CASE jsonb_typeof(step.value -> 'depth') WHEN 'number' THEN (step.value ->> 'depth')::numeric::integer END AS depth,
       CASE jsonb_typeof(step.value -> 'hits') WHEN 'number' THEN (step.value ->> 'hits')::numeric::integer END AS hits,
       CASE jsonb_typeof(step.value -> 'confidence')
           WHEN 'number' THEN (step.value ->> 'confidence')::double precision END AS confidence,
       CASE jsonb_typeof(step.value -> 'ms')
           WHEN 'number' THEN (step.value ->> 'ms')::double precision END AS ms,
       CASE jsonb_typeof(step.value -> 'late') WHEN 'array' THEN jsonb_array_length(step.value -> 'late') END AS late,
       step.value ->> 'not_asked' AS not_asked,
       CASE jsonb_typeof(d.cascade -> 'combined' -> (step.value ->> 'layer'))
           WHEN 'number' THEN (d.cascade -> 'combined' ->> (step.value ->> 'layer'))::numeric::integer
           ELSE 0 END AS selected,
       d.cascade ->> 'ended' AS ended
FROM recall_decisions AS d
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(d.cascade -> 'path') WHEN 'array' THEN d.cascade -> 'path' ELSE '[]' END
) WITH ORDINALITY AS step (value, place);

COMMENT ON VIEW recall_layers IS 'One row for every layer of every cascade.';
COMMENT ON COLUMN recall_layers.decision_id IS 'The decision: recall_decisions.id.';
COMMENT ON COLUMN recall_layers.created_at IS 'When the decision was taken.';
COMMENT ON COLUMN recall_layers.profile IS 'The profile that was used.';
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

-- As for the other views; where the role could not be made, an administrator grants it with the others.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_layers TO orion_analyst;
    END IF;
END
$$;
