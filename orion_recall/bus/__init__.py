"""The bus: streams, consumer groups, the fenced commit, the client. It knows nothing of recall."""
