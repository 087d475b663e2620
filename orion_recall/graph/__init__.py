"""The graph's words and the walks over it."""
