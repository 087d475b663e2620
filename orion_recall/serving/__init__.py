"""A running worker: its backends, query handling, background work and observability."""
