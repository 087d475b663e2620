"""Bounded reading: what a message costs is limited by its bytes, before anything is built of it."""
