"""Query understanding: class, time, names, possessive chains and further words of a question."""
