"""Many memories: stores filled in bulk, recalls on a real worker, and what grows with the number of memories."""
