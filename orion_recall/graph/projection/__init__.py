"""The graph as a projection of the memories: the queries and updates that a change needs."""
