"""Names, statements and times found in texts: by rules, spaCy or a language model."""
