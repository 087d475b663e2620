"""Time in questions: a pure grammar from words to half-open intervals, relative to the query's own now."""
