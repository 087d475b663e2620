"""Projection of memories to the graph: the queries and updates of each change."""
