"""The record in Postgres: memories, their changes and history, the extraction queue."""
