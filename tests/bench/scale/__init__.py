"""Many memories: filled stores, recalls on a real worker, and what grows with the number of memories."""
