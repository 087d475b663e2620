"""Memories: from a message into the record, and from its outbox into the copies, index and graph."""
