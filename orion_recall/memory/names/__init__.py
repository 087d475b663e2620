"""Merged names: proposals, guards, and what the copies are told."""
