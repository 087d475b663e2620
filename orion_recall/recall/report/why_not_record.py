"""Why a memory is not in an answer, as far as the record tells: not there yet, not any more, or not asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.memory_facts import MemoryFacts
from orion_recall.recall.report.asked_again import clock_of, options_of, scope_of_decision
from orion_recall.recall.report.explain_words import length
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.text.normal import one_line

_IDS = ("session_id", "user_id", "agent_id", "run_id")


def lost_by_record(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """The stage before any search that lost it; None where it could have been found."""
    asked_at = decision.created_at
    if memory.recorded_at > asked_at:
        later = (memory.recorded_at - asked_at).total_seconds()
        words = f"It was stored {length(later)} after the question was asked."
        return WhyNot(stage="not_stored", by_how_much=round(later, 3), unit="seconds", words=words)
    if memory.gone_at is not None and memory.gone_at <= asked_at:
        return _gone(memory, (asked_at - memory.gone_at).total_seconds(), "before the question was asked")
    behind = _behind(decision, memory)
    if behind is not None:
        words = (
            f"Index and graph had not applied it yet when the search began: they were {behind} "
            f"{'change' if behind == 1 else 'changes'} behind (read_at)."
        )
        return WhyNot(stage="not_indexed", by_how_much=float(behind), unit="changes", words=words)
    return _not_asked_for(decision, memory)


def lost_since(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """That a memory was deleted after the decision, so that asking again says nothing of it."""
    if memory.gone_at is None:
        return None
    since = (memory.gone_at - decision.created_at).total_seconds()
    told = _gone(memory, since, "after the question was asked")
    return WhyNot(
        stage="deleted",
        by_how_much=told.by_how_much,
        unit=told.unit,
        words=f"{told.words} What the search did with it was not kept, and cannot be found out any more.",
    )


def time_of(decision: RecallDecisionV1, memory: MemoryFacts, lost: WhyNot) -> WhyNot:
    """A memory lost by the question's time, with how far it is from the nearest interval."""
    time = (decision.understood or {}).get("time")
    intervals = cast("Mapping[str, Any]", time).get("intervals", ()) if isinstance(time, Mapping) else ()
    gap = _distance(memory.at, [(_moment(one.get("from")), _moment(one.get("until"))) for one in intervals])
    if memory.at is None:
        return WhyNot(stage="time", words=f"{lost.words} It is undated.")
    if gap is None:
        return lost
    words = f"{lost.words} It is {length(gap)} away from it."
    return WhyNot(stage="time", by_how_much=round(gap, 3), unit="seconds", words=words)


def _gone(memory: MemoryFacts, seconds: float, when: str) -> WhyNot:
    what = f"replaced by {one_line(memory.superseded_by)}" if memory.superseded_by else "deleted"
    words = f"It was {what} {length(seconds)} {when}."
    return WhyNot(stage="deleted", by_how_much=round(seconds, 3), unit="seconds", words=words)


def _behind(decision: RecallDecisionV1, memory: MemoryFacts) -> int | None:
    """How many changes behind the index was, where the memory was among them."""
    read = (decision.read_at or {}).get("index")
    if read is None or memory.unread is None or memory.unread_at is None or memory.unread_at > decision.created_at:
        return None
    return memory.unread - read


def _not_asked_for(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    scope, options = scope_of_decision(decision), options_of(decision)
    for name in _IDS:
        if (wanted := scope.get(name)) is not None and getattr(memory, name) != wanted:
            own = getattr(memory, name)
            what = name.removesuffix("_id")
            whose = f"it is of the {what} {one_line(own)}" if own else f"it has no {what}"
            words = f"Only memories of the {what} {one_line(str(wanted))} were searched, and {whose}."
            return WhyNot(stage="scope", words=words)
    kinds, tags = _texts(scope.get("kinds")), _texts(scope.get("tags"))
    if kinds and not {memory.kind, memory.guessed_kind} & set(kinds):
        words = (
            f"Only memories of the kind {' or '.join(kinds)} were searched, and it is of the kind {memory.kind}."
        )
        return WhyNot(stage="filter", words=words)
    if tags and not set(tags) & set(memory.tags):
        words = f"Only memories with the tag {' or '.join(map(one_line, tags))} were searched."
        return WhyNot(stage="filter", words=words)
    if memory.id in options.exclude:
        return WhyNot(stage="filter", words="The query leaves it out by its id (options.exclude).")
    return _outside(decision, memory, options.since, options.until)


def _outside(
    decision: RecallDecisionV1, memory: MemoryFacts, since: datetime | None, until: datetime | None
) -> WhyNot | None:
    if since is None and until is None:
        return None
    if memory.at is None:
        return WhyNot(stage="time", words="Only a time was searched (since, until), and it is undated.")
    late = until is not None and memory.at >= until
    edge = until if late else since
    if edge is None or (not late and memory.at >= edge):
        return None
    gap = abs((memory.at - edge).total_seconds())
    words = f"It is {length(gap)} {'after the end (until)' if late else 'before the beginning (since)'} of the time"
    asked_at = length(max(clock_of(decision) - memory.at.timestamp(), 0.0))
    return WhyNot(
        stage="time",
        by_how_much=round(gap, 3),
        unit="seconds",
        words=f"{words} that was searched; it was {asked_at} old.",
    )


def _distance(at: datetime | None, intervals: Sequence[tuple[datetime | None, datetime | None]]) -> float | None:
    """Seconds to the nearest interval; None where there is none to be outside of."""
    if at is None:
        return None
    gaps = [
        max((start - at).total_seconds() if start else 0.0, (at - end).total_seconds() if end else 0.0, 0.0)
        for start, end in intervals
    ]
    return min(gaps, default=None)


def _moment(told: object) -> datetime | None:
    return datetime.fromisoformat(told) if isinstance(told, str) else None


def _texts(value: object) -> list[str]:
    return [str(one) for one in cast("Sequence[object]", value)] if isinstance(value, list | tuple) else []
