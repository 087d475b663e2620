-- What kind of answer a question asks for, beside a time.
COMMENT ON COLUMN recall_decisions.understood IS
    'What was understood of the query: {time: {intervals: [{from, until, kind, words}], asks_when, session}, '
    'asks_for: [name, number], class, class_words, language, people, entities: [{name, kind}]}; from and until are '
    'half-open, in UTC, null where open; words, class_words, people and entities are absent where query text is not kept.';
