"""The bus: streams, consumer groups, the commit of replies. It knows nothing of recall."""
