"""Weights and other values of a profile, tried and learned from judged queries."""
