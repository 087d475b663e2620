"""The record in Postgres: memories, their changes, and idempotent requests."""
