"""The conversation graph: turns as nodes; next turn, reply, reference and shared topic as edges."""
