"""What one text tells of changes: its clauses, values, people, habits and posts; nothing is compared here."""
