"""The embedded index in a process of its own: its engine holds Python's lock while it searches and writes."""
