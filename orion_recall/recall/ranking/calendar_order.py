"""The order of a calendar's answer: what is told of the time that was asked for, then a few others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import Interval, ToldTime

# A memory tells of the time if it tells of little else: not if it says "this year".
TELLS: Final = 0.25
# So many answers are wanted at least; what tells of no such time fills them up. A few more are kept, especially
# where more than the time was asked for, as long as the answer is not long.
_FEWEST, _LONG = 6, 10
_OTHERS, _OTHERS_OF_A_SUBJECT = 2, 4
# What is told of more than four days ("this week") is no entry: "15 to 17 May" is.
_LONGEST_ENTRY_S: Final = 4 * 86_400.0
# Of so short a time what comes every week is an entry like any other.
_DAY_ASKED_S: Final = 2 * 86_400.0
# In a longer time than this what comes every week is told last.
_WEEK_S: Final = 7 * 86_400.0
_SHORT_S: Final = 8 * 86_400.0
_ENTRY, _WEEKLY, _PERIOD, _AGAIN = 0, 1, 2, 3


def calendar_order(
    ranked: Sequence[ScoredCandidate], understood: Understanding, dropped: Dropped
) -> Sequence[ScoredCandidate]:
    """The ranked items, for a calendar's question those with the part `told` first, and few of the others.

    First what is told of days, in the order of time, then what comes every week, then what is told of a longer
    time; of one day what comes every week is among the first, of more than a week it is last. The others are best
    first. The successor of one of them is of the time, too, whatever time it tells. Where nothing is told of the
    time, they stay as they are.
    """
    if not (telling := telling_of(ranked, understood)):
        return ranked
    now, intervals = understood.question.now, understood.question.time.intervals
    places: dict[int, tuple[int, float]] = {}
    moved: dict[int, tuple[int, float]] = {}
    for item in telling:
        places[item.candidate.key] = place = _place(item, intervals, now)
        if item.ended is not None:
            moved.setdefault(item.ended.key, place)
    places = moved | places
    inside = [item for item in ranked if item.candidate.key in places]
    inside.sort(key=lambda item: places[item.candidate.key])
    others = [item for item in ranked if item.candidate.key not in places]
    most = _OTHERS if understood.question.time.alone else _OTHERS_OF_A_SUBJECT
    kept = max(_FEWEST - len(inside), min(most, _LONG - len(inside)), 0)
    for item in others[kept:]:
        dropped.note("other_time", item.candidate.key)
    return [*inside, *others[:kept]]


def telling_of(items: Sequence[ScoredCandidate], understood: Understanding) -> list[ScoredCandidate]:
    """Those that tell of the time that a calendar's question asks for; none for another question."""
    return [item for item in items if item.parts.get("told", 0.0) >= TELLS] if understood.of_calendar else []


def _place(item: ScoredCandidate, intervals: Sequence[Interval], now: float) -> tuple[int, float]:
    """What kind of entry the item is, and when the first one is to come that it tells of the intervals."""
    found = [(_AGAIN, 0.0)]
    for asked in intervals:
        start = max(now, now if asked.start is None else asked.start)
        end = math.inf if asked.end is None else asked.end
        for told in item.memory.told:
            since, until = _next(told, start) if told.weekly else (told.since, told.until)
            if until <= start or since >= end or (told.weekly and end - start > _SHORT_S):
                continue
            kind = _ENTRY if until - since <= _LONGEST_ENTRY_S else _PERIOD
            if told.weekly and end - start > _DAY_ASKED_S:
                kind = _WEEKLY
            found.append((kind, max(since, start)))
    return min(found)


def _next(told: ToldTime, start: float) -> tuple[float, float]:
    """The first time of what comes every week that is not over at the start."""
    weeks = max(0, math.floor((start - told.until) / _WEEK_S) + 1)
    return told.since + weeks * _WEEK_S, told.until + weeks * _WEEK_S
