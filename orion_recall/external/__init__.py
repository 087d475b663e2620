"""Stores of others: mappings, and how they are searched."""
