"""Observability of a worker: metrics, traces and the health port."""
