"""Text: normal forms, what a text tells, time zones."""
