"""The index of memories: points and metadata, for the embedded engine and for a Qdrant server."""
