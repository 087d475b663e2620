"""The systems of the analysis of retrieval, compared: how well they find, how fast, and how they grow."""
