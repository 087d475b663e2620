"""Profiles: the keys (`model` and its sections), the reading of YAML (`reading`), reloading (`watch`)."""

from orion_recall.profile.model import Profile

__all__ = ["Profile"]
