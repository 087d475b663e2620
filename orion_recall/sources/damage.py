"""Hits of a copy that is damaged, or behind without hope for now: they count, and the answer is degraded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orion_recall.errors import PartialSourceError
from orion_recall.values import Hit


class DamagedCopy(Protocol):
    """A copy that may be damaged; `memory/replicas/self_check.py` finds that out."""

    @property
    def kind(self) -> str: ...

    damage: str | None
    """What is known to be wrong with it; None for nothing."""
    stalled: str | None
    """Why it is behind and is not written now; None while it is."""


def whole(hits: Sequence[Hit], copy: DamagedCopy) -> Sequence[Hit]:
    """The hits. PartialSourceError with them where the copy that they are from is damaged, or behind."""
    if copy.damage is not None:
        raise PartialSourceError(f"the {copy.kind} is damaged: {copy.damage}", hits)
    if copy.stalled is not None:
        raise PartialSourceError(f"the {copy.kind} is behind, and is not written: {copy.stalled}", hits)
    return hits
