"""Candidates: fusion of all sources' hits, fetching of their memories, and filters."""
