ALTER TABLE recall_decisions ADD COLUMN understood jsonb;
COMMENT ON COLUMN recall_decisions.understood IS
    'What was understood of the query: {time: {intervals: [{from, until, kind, words}], asks_when, session}}; from and '
    'until are half-open, in UTC, null where open; words are absent where query text is not kept.';
