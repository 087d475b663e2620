"""External stores: their mappings, and their retrieval sources."""
