"""The graph of memories: vocabulary, projection, stores, walks, Cypher, files."""
