"""Further layers of memory, searched while the answer is not sure enough."""
