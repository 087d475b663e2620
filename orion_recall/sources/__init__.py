"""Retrieval sources, one a module, behind the Protocols of `interfaces`."""
