"""Merged names: proposals, guards against wrong ones, and merges."""
