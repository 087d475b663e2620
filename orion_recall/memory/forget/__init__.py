"""Forgetting: what was said is removed from everywhere that this service owns, and a report says what is left."""
