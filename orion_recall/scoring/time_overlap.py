"""Time overlap: how well the time of a memory fits the intervals that a question names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orion_recall.values import Interval

WIDENED_S: Final = 86_400.0
"""Whole-day arithmetic is often a day off, and people tell of things a day later."""
_NEAR: Final = 0.9


def overlap(intervals: Sequence[Interval], start: float | None, until: float | None = None) -> float | None:
    """1 for a memory that overlaps one of the intervals, 0.9 within a day of it, else 0; None for an undated one.

    `start` and `until` are the memory's, in epoch seconds; one without `until` is a moment.
    """
    if start is None:
        return None
    end = start if until is None or until < start else until
    best = 0.0
    for since, before, _, _ in intervals:
        if (since is None or end >= since) and (before is None or start < before):
            return 1.0
        if (since is None or end >= since - WIDENED_S) and (before is None or start < before + WIDENED_S):
            best = _NEAR
    return best
