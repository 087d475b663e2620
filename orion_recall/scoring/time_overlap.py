"""Time overlap: how well the time of a memory fits the intervals that a question names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orion_recall.values import Interval

WIDENED_S: Final = 86_400.0
"""Whole-day arithmetic is often a day off, and people tell of things a day later."""
_NEAR: Final = 0.9
_OPEN_S: Final = 30 * 86_400.0


def widened(interval: Interval) -> Interval:
    """The interval, a day wider on both sides."""
    start, end = interval.start, interval.end
    return interval._replace(
        start=None if start is None else start - WIDENED_S,
        end=None if end is None else end + WIDENED_S,
        exact=False,
    )


def overlaps(
    intervals: Sequence[Interval], times: Sequence[tuple[float | None, float | None]]
) -> Sequence[float | None]:
    """The `overlap` of each memory, by its time and its end.

    A day that is named exactly is that day; a day beside it counts only where nothing is of the day itself.
    """
    if not all(one.exact for one in intervals):
        return [overlap(intervals, start, until) for start, until in times]
    found = [overlap(intervals, start, until, exactly=True) for start, until in times]
    return found if any(found) else [overlap(intervals, start, until) for start, until in times]


def proximity(intervals: Sequence[Interval], start: float | None, until: float | None = None) -> float | None:
    """1 for a memory that overlaps one of the intervals; half as much with each further length of it away.

    None for an undated memory. An interval counts as a day at least, one without beginning or end as thirty.
    """
    if start is None:
        return None
    end = start if until is None or until < start else until
    best = 0.0
    for one in intervals:
        before = 0.0 if one.start is None else one.start - end
        after = 0.0 if one.end is None else start - one.end
        is_open = one.start is None or one.end is None
        length = _OPEN_S if is_open else max((one.end or 0.0) - (one.start or 0.0), WIDENED_S)
        best = max(best, 0.5 ** (max(before, after, 0.0) / length))
    return best


def overlap(
    intervals: Sequence[Interval], start: float | None, until: float | None = None, *, exactly: bool = False
) -> float | None:
    """1 for a memory that overlaps one of the intervals, 0.9 within a day of it, else 0; None for an undated one.

    `start` and `until` are the memory's, in epoch seconds; one without `until` is a moment. `exactly`: there is no
    0.9 for what is within a day.
    """
    if start is None:
        return None
    end = start if until is None or until < start else until
    best = 0.0
    for since, before, *_ in intervals:
        if (since is None or end >= since) and (before is None or start < before):
            return 1.0
        if exactly:
            continue
        if (since is None or end >= since - WIDENED_S) and (before is None or start < before + WIDENED_S):
            best = _NEAR
    return best
