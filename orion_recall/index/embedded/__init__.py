"""The index in this process: Qdrant Edge on a folder."""
