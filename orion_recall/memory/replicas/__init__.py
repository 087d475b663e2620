"""The copies of the record: projected, checked, rebuilt, and never shown when outdated."""
