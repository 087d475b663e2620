"""The graph as files, and as a picture."""
