"""The bus: streams, consumer groups, the fenced commit. It knows nothing of recall."""
