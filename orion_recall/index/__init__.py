"""The index of memories: points and metadata, whichever engine holds them."""
