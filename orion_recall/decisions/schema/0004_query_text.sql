COMMENT ON COLUMN recall_decisions.query IS
    'The fragment (its first 4,000 characters); where query text is not kept, blake2b: and 32 hex digits, or nothing.';
COMMENT ON COLUMN recall_decisions.intent IS
    'Search context that came with the query; where query text is not kept, its hash, or null.';
COMMENT ON COLUMN recall_decisions.sources IS
    'How each source did: {source: {status: ok | empty | late | failed | off, count, ms, error, stood_in}}. stood_in is '
    'record where the record''s text search answered in the place of an index that did not.';
