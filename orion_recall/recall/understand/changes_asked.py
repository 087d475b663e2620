"""Questions for changes: "what changed in October?", "have there been any changes this week?". English only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

OF_CHANGES: Final = frozenset("change changes changed changing different differently".split())


def asks_for_changes(words: Collection[str]) -> bool:
    """Whether the question's words, folded, ask what is different; of what, they may say as well."""
    return not OF_CHANGES.isdisjoint(words)
