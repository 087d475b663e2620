"""Values of the score parts that are about time: when a memory is from, and which times its text tells."""

from __future__ import annotations

from collections.abc import Iterable

from orion_recall.scoring import time_overlap
from orion_recall.scoring.part_values import READ_CHARS, Column, Pair, PartInputs
from orion_recall.scoring.time_overlap import overlaps
from orion_recall.scoring.told_overlap import is_told_of, told_ranges, told_share
from orion_recall.text.answers import tells_time
from orion_recall.values import QuestionTime
from orion_recall.when.clock import tells_clock

_HALF, _QUARTER = 0.5, 0.25
# Of a time that may be either, what was said then goes before what was told of it later.
_TOLD = 0.8


def time(given: PartInputs) -> Column | None:
    """How well the memory's time fits that of the question. An undated memory has no such part.

    None where the question is about what texts tell of a time, whenever it was said. Where it may mean either, what
    was told of the time later is of that time, too.
    """
    asked = given.facts.time
    if asked.of == "told":
        return None
    named = asked.session_id or session_named(given.candidates, asked, given.facts.session_id)
    if not asked.intervals and named is None:
        return None
    fits: Column = [None] * len(given.memories)
    if asked.intervals:
        fits = overlaps(asked.intervals, [(memory.ts, memory.until) for memory in given.memories])
    ranges = told_ranges(asked, given.facts.now)
    column: list[float | None] = []
    for memory, fit in zip(given.memories, fits, strict=True):
        near = fit
        if fit != 1.0 and memory.told and ranges and is_told_of(memory, ranges, ahead=asked.ahead):
            near = max(_TOLD * told_share(memory.told, ranges), fit or 0.0)
        if near is None and named is not None:
            near = 1.0 if memory.session_id == named else 0.0
        column.append(near)
    return column


def proximity(given: PartInputs) -> Column | None:
    """How close the memory's time is to the one that the question names. An undated memory has no such part."""
    asked = given.facts.time
    if asked.of == "told" or not asked.intervals:
        return None
    return [time_overlap.proximity(asked.intervals, memory.ts, memory.until) for memory in given.memories]


def told(given: PartInputs) -> Column | None:
    """How well the times that the text tells fit the time of the question.

    None where that time may as well be that of saying: then it counts in `time`. Where a time is what the question
    asks for, a fit is worth half; where the question asks when something is, a quarter, since any time would fit.
    """
    asked = given.facts.time
    ranges = told_ranges(asked, given.facts.now)
    if not ranges or (asked.of == "both" and asked.intervals):
        return None
    worth = 1.0 if asked.of == "told" and asked.intervals else _QUARTER if asked.asks_when else _HALF
    column = [worth * told_share(memory.told, ranges) if memory.told else 0.0 for memory in given.memories]
    if not (unknown := given.facts.told_unknown):
        return column
    return [
        None if candidate.key in unknown else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def session_named(candidates: Iterable[Pair], time: QuestionTime, session_id: str | None) -> str | None:
    """The session that the question names by its place, by first turn, among the candidates.

    The query's own session is none of them.
    """
    if time.session is None:
        return None
    first: dict[str, float] = {}
    for _, memory in candidates:
        session, ts = memory.session_id, memory.ts
        if session is not None and ts is not None and session != session_id:
            first[session] = min(ts, first.get(session, ts))
    place = time.session - 1 if time.session > 0 else time.session
    order = sorted(first, key=lambda session: (first[session], session))
    return order[place] if -len(order) <= place < len(order) else None


def time_told(given: PartInputs) -> Column | None:
    """1 for texts that tell a time or a time of day, where the question asks when."""
    if not given.facts.time.asks_when:
        return None
    texts = [memory.best_text[:READ_CHARS] for memory in given.memories]
    return [1.0 if tells_time(text) or tells_clock(text) else 0.0 for text in texts]
