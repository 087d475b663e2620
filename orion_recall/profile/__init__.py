"""Profiles: the keys (`model` and its sections), the reading of YAML (`reading`), reloading (`watch`)."""

from orion_recall.profile.model import (
    CANDIDATES,
    KeyPath,
    Profile,
    ProfileDifference,
    Strategies,
    diff_profiles,
    profile_fields,
    profile_json_schema,
)

__all__ = [
    "CANDIDATES",
    "KeyPath",
    "Profile",
    "ProfileDifference",
    "Strategies",
    "diff_profiles",
    "profile_fields",
    "profile_json_schema",
]
