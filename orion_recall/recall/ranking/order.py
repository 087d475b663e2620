"""The order of what may be shown: recaps session by session, calendars by time, each text once, low scores out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from orion_recall.profile import Profile
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.ranking.score import in_order
from orion_recall.recall.successors import without_superseded
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.part_values import READ_CHARS
from orion_recall.text.inert import instructs_reader
from orion_recall.text.normal import is_question
from orion_recall.values import Interval, MemoryView, ReaderInstructions, ToldTime

SUBSTANCE, TURN = "substance", "turn"
WEIGHTS: Final = {SUBSTANCE: 2.0, TURN: 1.0}
_WHOLE_LENGTH: Final = 160
_DAY_S: Final = 86_400.0
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w")


def in_recap(kept: Sequence[tuple[Candidate, MemoryView]]) -> list[ScoredCandidate]:
    """The candidates, scored as a recap needs them, best first."""
    told = [(substance(memory), candidate, memory) for candidate, memory in kept]
    told.sort(key=lambda one: (-one[0], one[2].ts or 0.0, one[2].id))
    places: dict[str | float, int] = {}
    scored: list[ScoredCandidate] = []
    for value, candidate, memory in told:
        session = memory.session_id or (memory.ts or 0.0) // _DAY_S
        places[session] = place = places.get(session, 0) + 1
        parts = {SUBSTANCE: value, TURN: 0.0 if memory.chatter else 1 / place}
        score = round(sum(WEIGHTS[name] * part for name, part in parts.items()) / sum(WEIGHTS.values()), 6)
        scored.append(
            ScoredCandidate(candidate=candidate, memory=memory, score=score, parts=parts, weights=WEIGHTS)
        )
    return in_order(scored)


def substance(memory: MemoryView) -> float:
    """How much a text tells, in [0, 1]: its length, and whether it has a number, a time or a name in it.

    A question tells half of that, chatter nothing.
    """
    if memory.chatter:
        return 0.0
    text = memory.text[:READ_CHARS]
    value = 0.5 * min(1.0, len(text) / _WHOLE_LENGTH)
    value += 0.25 * (bool(memory.told) or any(one.isdigit() for one in text)) + 0.25 * bool(_NAME.search(text))
    return value / 2 if is_question(text) else value


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


def said_once(ranked: Sequence[ScoredCandidate], dropped: Dropped) -> list[ScoredCandidate]:
    """The candidates, each text once: the first of equal ones, with those of other speakers or days as its `same`.

    Texts are equal when their normal forms are (case, spacing and punctuation do not count). One that the same
    speaker said on the same day says nothing more: it is dropped as a near-duplicate.
    """
    groups: dict[str, dict[tuple[str | None, float | None], ScoredCandidate]] = {}
    for item in ranked:
        memory = item.memory
        group = groups.setdefault(memory.text_hash, {})
        first = group.setdefault((memory.speaker, None if memory.ts is None else memory.ts // _DAY_S), item)
        if first is not item:
            dropped.note("near_duplicate", item.candidate.key, for_key=first.candidate.key)
    kept: list[ScoredCandidate] = []
    for group in groups.values():
        first, *others = group.values()
        kept.append(replace(first, same=tuple(others)) if others else first)
    return kept


def instructs(memory: MemoryView) -> bool:
    """Whether text or title of a memory has an instruction to whoever reads it."""
    return instructs_reader(memory.text) or instructs_reader(memory.title or "")


def with_instructing(result: PassResult, use: ReaderInstructions) -> PassResult:
    """The result with memories that instruct their reader held, or down; else as it is."""
    if use not in ("down", "hold"):
        return result
    instructing = {item.candidate.key for item in result.ranked if instructs(item.memory)}
    if not instructing:
        return result
    others = [item for item in result.ranked if item.candidate.key not in instructing]
    if use == "hold":
        for key in instructing:
            result.dropped.note("instructs_reader", key)
        return replace(result, ranked=tuple(others))
    down = [item for item in result.ranked if item.candidate.key in instructing]
    return replace(result, ranked=(*others, *down))


def reduced(
    scored: Sequence[ScoredCandidate],
    understood: Understanding,
    profile: Profile,
    *,
    least: float,
    dropped: Dropped,
) -> list[ScoredCandidate]:
    """The candidates, best first, that score `least` or more, each said once; calendars in their own order.

    Memories that have a successor are left out where the profile omits them. `dropped` notes each reason.
    """
    kept: list[ScoredCandidate] = []
    for item in scored:
        if item.score >= least:
            kept.append(item)
        else:
            dropped.note("below_min_score", item.candidate.key)
    kept = without_superseded(kept, understood.question, profile.superseded, dropped)
    return [*calendar_order(said_once(kept, dropped), understood, dropped)]
