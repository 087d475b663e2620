"""How well the times of memories, and those that their texts tell, fit the intervals that a question names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

from orion_recall.values import Interval, MemoryView, QuestionTime, TimeRange, ToldTime

WIDENED_S: Final = 86_400.0
"""Whole-day arithmetic is often a day off, and people tell of things a day later."""
_NEAR: Final = 0.9
_OPEN_S: Final = 30 * 86_400.0


def widened(interval: Interval) -> Interval:
    """The interval, a day wider on both sides."""
    start, end = interval.start, interval.end
    start, end = None if start is None else start - WIDENED_S, None if end is None else end + WIDENED_S
    return interval._replace(start=start, end=end, exact=False)


def overlaps(
    intervals: Sequence[Interval], times: Sequence[tuple[float | None, float | None]]
) -> Sequence[float | None]:
    """The `overlap` of each memory, by its time and its end.

    A day that is named exactly is that day; a day beside it counts only where nothing is of the day itself.
    """
    if all(one.exact for one in intervals):
        found = [overlap(intervals, start, until, exactly=True) for start, until in times]
        if any(found):
            return found
    return [overlap(intervals, start, until) for start, until in times]


def proximity(intervals: Sequence[Interval], start: float | None, until: float | None = None) -> float | None:
    """1 for a memory that overlaps one of the intervals; half as much with each further length of it away, which is
    a day at least, thirty for an open one. None for an undated memory."""
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
    """1 for a memory that overlaps one of the intervals, 0.9 within a day of it (not with `exactly`), else 0; None
    for an undated one. `start` and `until` are the memory's; one without `until` is a moment."""
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


_DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * _DAY_S
# What comes every week says less of one day than what is told for it.
_WEEKLY: Final = 0.8
# A told time of up to four times the length of an interval is about it.
_MEANT: Final = 0.5


def told_ranges(time: QuestionTime, now: float) -> tuple[TimeRange, ...]:
    """The intervals that told times are compared with, as those are; none where only the time of saying counts.

    Of a question for what is to come none begins before `now`; one that names no time is about all that is to come.
    """
    if time.of == "said":
        return ()
    if not time.ahead:
        return as_told([(one.start, one.end) for one in time.intervals], time.zone)
    if not time.intervals:
        return as_told([(now, None)], time.zone)
    ahead: list[TimeRange] = [
        (now if one.start is None else max(one.start, now), one.end)
        for one in time.intervals
        if one.end is None or one.end > now
    ]
    return as_told(ahead, time.zone)


def as_told(ranges: Iterable[TimeRange], zone: tzinfo) -> tuple[TimeRange, ...]:
    """The intervals with their days and clock times of the zone in UTC, as told times have them: a text names no
    zone, and "this week", said in Lima, ends with Lima's Sunday."""
    if zone is UTC:
        return tuple(ranges)
    return tuple((_at_same_clock(since, zone), _at_same_clock(until, zone)) for since, until in ranges)


def _at_same_clock(moment: float | None, zone: tzinfo) -> float | None:
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, zone).replace(tzinfo=UTC).timestamp()
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return moment


def tells_of(told: Iterable[ToldTime], ranges: Sequence[TimeRange]) -> bool:
    """Whether one of the told times overlaps one of the intervals."""
    return any(_overlaps(one, since, until) for one in told for since, until in ranges)


def told_share(told: Iterable[ToldTime], ranges: Sequence[TimeRange]) -> float:
    """How well the told times fit: 1 for one that is as short as the interval it overlaps, which counts as a day at
    least, less for a longer one: sqrt(length of the interval / of the told time)."""
    best = 0.0
    for one in told:
        length = one.until - one.since
        for since, until in ranges:
            if _overlaps(one, since, until):
                asked = math.inf if since is None or until is None else max(until - since, _DAY_S)
                share = 1.0 if length <= asked else math.sqrt(asked / length)
                best = max(best, share * _WEEKLY if one.weekly else share)
    return best


def is_told_of(memory: MemoryView, ranges: Sequence[TimeRange], *, ahead: bool) -> bool:
    """Whether the memory tells of one of the intervals, and not of a much longer time.

    Unless what is to come is asked for, a memory from before the interval told of a plan.
    """
    if not ahead and memory.ts is not None:
        ts = memory.ts
        ranges = [one for one in ranges if one[0] is None or ts >= one[0]]
    return told_share(memory.told, ranges) >= _MEANT


def _overlaps(one: ToldTime, since: float | None, until: float | None) -> bool:
    start, end, weekly = one
    if weekly and since is not None and end <= since:
        weeks = math.floor((since - end) / WEEK_S) + 1
        start, end = start + weeks * WEEK_S, end + weeks * WEEK_S
    return (until is None or start < until) and (since is None or end > since)
