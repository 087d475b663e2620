"""Work that a worker does beside serving: slower extraction, access counts, retention of answers."""
