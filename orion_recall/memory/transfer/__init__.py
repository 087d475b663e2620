"""Memories in files: import, export, backup and restore."""
