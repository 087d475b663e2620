-- The probability that anything found answered the question.
ALTER TABLE recall_decisions ADD COLUMN answer_probability double precision;

COMMENT ON COLUMN recall_decisions.answer_probability IS
    'The probability that anything found answers the question: 0 to 1; null where that could not be told.';
COMMENT ON COLUMN recall_decisions.no_answer IS
    'Why nothing was handed over although something was found, or why nothing was searched (a greeting): '
    '{reason, near_misses}; null else.';
