"""Confidence of items and of the answer, and the gate for answers below the profile's minimum."""
