"""Copies of the record: projection, drift checks, rebuilds, and the hiding of outdated memories."""
