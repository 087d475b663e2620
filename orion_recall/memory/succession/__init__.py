"""Successions: memories that say something new about the same thing as older ones."""
