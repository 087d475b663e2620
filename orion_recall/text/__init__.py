"""Text: normal forms, titles, time zones."""
