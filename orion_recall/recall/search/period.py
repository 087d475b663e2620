"""The search of a period: everything of a time, or of a session, that a question names and asks nothing else of.

The index lists the memories of the period, whatever they say, and all sources search inside it alone. The period is
as exact as it was named; where it holds nothing it is a day wider, since people are often a day off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orion_recall.errors import SourceError
from orion_recall.interfaces import ChronologicalIndex
from orion_recall.recall.search.all_sources import INDEX_SOURCES, or_else, within
from orion_recall.recall.types import MOST_OF_PERIOD, Dropped, Pairs, PassResult, Pool
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import READ_CHARS
from orion_recall.scoring.intervals import as_told, overlap, told_share, widened
from orion_recall.text.normal import without_possessive, words
from orion_recall.values import MemoryView, QuestionTime, Scope, TimedKey

_SHORT_S: Final = 3 * 86_400.0
# "This year" tells little of yesterday: a told time may be twice as long as the period.
_TELLS: Final = 0.7
_PAGE: Final = 256
# A page holds one session at least that was not known before; most hold dozens.
_MOST_PAGES: Final = 20

Asked = tuple[Understanding, Scope]


def is_of_what_happened(time: QuestionTime) -> bool:
    """Whether what was told of the time later belongs to it; a time that was only widened is told of by nothing."""
    return time.of == "both" and bool(time.intervals) and not time.widened


async def tries(
    understood: Understanding, scope: Scope, index: ChronologicalIndex | None, *, own_session: str | None
) -> list[Asked]:
    """The understandings and scopes to search by, one after another until something is found.

    A session that is named by its place becomes the scope, where it is all that is asked for; else it counts in the
    score. `own_session` is the query's.
    """

    def at(time: QuestionTime) -> Understanding:
        return replace(understood, question=replace(understood.question, time=time))

    time, named = understood.question.time, None
    if time.session is not None and index is not None:
        named = await session_at(index, scope, time.session, without=own_session)
        time = replace(time, session_id=named or time.session_id)
        understood = at(time)
    if not understood.is_recap:
        return [(understood, scope)]
    if not time.intervals:
        if named is None:  # nobody knows which session it is
            understood = replace(understood, shape=None)
        return [(understood, replace(scope, session_id=scope.session_id or named))]
    wider = tuple(  # who names a month or a year is not a day off
        widened(one) if one.start is not None and one.end is not None and one.end - one.start <= _SHORT_S else one
        for one in time.intervals
    )
    if wider == time.intervals:
        return [(understood, scope)]
    return [(understood, scope), (at(replace(time, intervals=wider, widened=True)), scope)]


def is_answered(result: PassResult) -> bool:
    """Whether there is something of the time, be it of others than those who are named."""
    return bool(result.ranked) or result.dropped["other_people"] > 0


async def list_period(pool: Pool) -> None:
    """All sources search inside the period alone, and `listed` are the keys of its memories, whatever these say.

    At most `MOST_OF_PERIOD`, and as many that tell of it later; none while the index is away, or where it is not
    asked.
    """
    time, intervals = pool.question.time, pool.question.time.intervals
    pool.requests = {
        name: replace(request, scope=within(request.scope, intervals, widened_s=0.0))
        for name, request in pool.requests.items()
    }
    if pool.given is not None:
        pool.listed = [one.key for one in pool.given.pool]
        return
    index = pool.sources.chronological
    asked = [pool.requests[name] for name in INDEX_SOURCES if name in pool.requests]
    if index is None or not asked:
        return
    scope, timeout_s = asked[0].scope, pool.source_left_s
    listed = [index.in_time_order(scope, MOST_OF_PERIOD, newest_first=True)]
    if is_of_what_happened(time):
        ranges = tuple((one.start, one.end) for one in intervals)
        listed.append(index.in_time_order(replace(scope, until=None, told=ranges), MOST_OF_PERIOD))
    nothing: Sequence[TimedKey] = ()
    found = await asyncio.gather(*(or_else(one, nothing, timeout_s) for one in listed))
    pool.listed = list(dict.fromkeys(one.key for part in found for one in part))


def in_period(kept: Pairs, understood: Understanding, dropped: Dropped) -> Pairs:
    """The candidates of the period, and of the people that the question names: nothing else belongs into a recap.

    Where the question is of what happened then, what was told of it later belongs to it. What was said before is a
    plan, and may have come otherwise.
    """
    time, people = understood.question.time, understood.people
    if time.intervals:
        kept = dropped.others("other_time", kept, [one for one in kept if _is_of_time(one[1], time)])
    if people:
        of_people = _of_people(kept, people, with_sessions=time.of == "said")
        kept = dropped.others("other_people", kept, of_people)
    return kept


def _of_people(kept: Pairs, people: Sequence[str], *, with_sessions: bool) -> Pairs:
    names = frozenset(words(one)[0] for one in people if words(one))
    sessions = {memory.session_id for _, memory in kept if with_sessions and memory.speaker in people} - {None}
    return [
        (candidate, memory)
        for candidate, memory in kept
        if memory.speaker in people
        or memory.session_id in sessions
        or not names.isdisjoint(map(without_possessive, words(memory.text[:READ_CHARS])))
    ]


def _is_of_time(memory: MemoryView, time: QuestionTime) -> bool:
    if overlap(time.intervals, memory.ts, memory.until, exactly=True):
        return True
    told = [one for one in memory.told if not one.weekly]  # later
    if memory.ts is None or not told or not is_of_what_happened(time):
        return False
    begun = [(one.start, one.end) for one in time.intervals if one.start is None or one.start <= memory.ts]
    return bool(begun) and told_share(told, as_told(begun, time.zone)) >= _TELLS


async def session_at(
    index: ChronologicalIndex, scope: Scope, place: int, *, without: str | None = None
) -> str | None:
    """The session at a place by its first turn in the whole scope: from 1 on, or from -1 (the last) back; `without`
    has no place. None where there are fewer sessions, or the index does not answer."""
    seen: dict[str, None] = {} if without is None else {without: None}
    newest_first, wanted = place < 0, abs(place) + len(seen)
    try:
        for _ in range(_MOST_PAGES):
            page = await index.in_time_order(scope, _PAGE, newest_first=newest_first, without_sessions=tuple(seen))
            for one in page:
                if one.session_id is not None:
                    seen.setdefault(one.session_id)
            if len(seen) >= wanted:
                return list(seen)[wanted - 1]
            if len(page) < _PAGE:
                return None
    except SourceError:
        return None
    return None
