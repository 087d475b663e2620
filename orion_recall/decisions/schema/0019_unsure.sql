ALTER TABLE recall_decisions ADD COLUMN unsure boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN recall_decisions.unsure IS
    'Whether nothing clearly answered, so that only the nearest few were handed over.';
COMMENT ON COLUMN recall_decisions.cascade IS
    'The way through the layers of memory, null without a cascade: {primary_layer, primary_confidence, cascaded_to, '
    'cascade_confidences, final_confidence, threshold, depth, max_depth, ended: confident | depth | no_layer | deadline, '
    'trigger: the code of the first layer''s answer, merge_strategy, combined: {layer: items}, path: [{layer, depth, hits, '
    'confidence, ms, late, not_asked}]}.';
COMMENT ON COLUMN recall_decisions.no_answer IS
    'Why nothing was handed over: {reason: no_words, greeting and so on, or below_min_probability | '
    'below_min_confidence | below_min_score with value and minimum, near_misses}; null else.';
