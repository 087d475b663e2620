-- The confidence of an answer that was withheld is that of what would have been its first item: minima are chosen by it.
COMMENT ON COLUMN recall_decisions.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item; where no_answer is not null, that of the first item that was withheld.';
COMMENT ON COLUMN recall_queries.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item; where no_answer is not null, that of the first item that was withheld.';
COMMENT ON COLUMN recall_unsure.confidence IS
    'How sure the answer was: 0 to 1; null when there was no item; where why is no_answer, that of the first item that was withheld.';
