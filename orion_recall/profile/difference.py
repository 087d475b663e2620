"""Differences between two profiles, key by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from orion_recall.profile.model import Profile

ProfileValue = str | int | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDifference:
    """One key whose value differs between two profiles."""

    key: str
    left: ProfileValue
    right: ProfileValue


def diff_profiles(a: Profile, b: Profile) -> list[ProfileDifference]:
    """The values that differ, by dotted key, in the model's order; the name is one of them."""
    left, right = _flat(a.model_dump()), _flat(b.model_dump())
    return [
        ProfileDifference(key=key, left=left.get(key), right=right.get(key))
        for key in dict.fromkeys((*left, *right))
        if left.get(key) != right.get(key)
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, ProfileValue]:
    flat: dict[str, ProfileValue] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
