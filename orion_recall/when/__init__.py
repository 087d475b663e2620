"""Time expressions: a grammar from the words of a question to half-open intervals, relative to the query's now."""
