"""Candidates: hits of all sources fused, their memories fetched, and those that may not be shown left out."""
