"""Connections of commands: bus, Postgres, the record, and the copies of index and graph."""
