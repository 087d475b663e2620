"""How to recall: what a profile may say (`model`, its sections), how it is read (`reading`) and kept (`watch`)."""

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
