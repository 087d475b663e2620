"""What was found and is not in the bundle: how many by reason, and of those that can be named, why."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from orion_recall.values import DropReason


class LeftOut(NamedTuple):
    """Why one candidate was left out, and the key of the memory in whose favour, where it was one's."""

    reason: DropReason
    for_key: int | None = None


class Dropped(Counter[DropReason]):
    """How many candidates were left out, by reason; `each` has the reason of those that `note` was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.each: dict[int, LeftOut] = {}

    def note(self, reason: DropReason, key: int, *, for_key: int | None = None) -> None:
        """One more."""
        self[reason] += 1
        self.each[key] = LeftOut(reason, for_key)
