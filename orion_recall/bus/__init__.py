"""The bus: streams, consumer groups, and the commit of replies; independent of recall."""
