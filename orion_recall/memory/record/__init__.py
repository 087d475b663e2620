"""The record in Postgres: memories, their changes, and requests that are answered once."""
