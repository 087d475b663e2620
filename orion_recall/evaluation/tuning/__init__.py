"""Tuning of a profile with judged queries: grids, ablations, and learned ranking weights."""
