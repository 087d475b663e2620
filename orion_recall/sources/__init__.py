"""Retrieval sources, one per module, behind the Protocols of `interfaces`."""
