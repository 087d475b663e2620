"""Memories as statements of the graph: what a change reads, and what it writes."""
