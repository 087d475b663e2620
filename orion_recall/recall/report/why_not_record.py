"""Why a memory is not in an answer, as far as the record shows: not there yet, not any more, or not asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.memory_facts import MemoryFacts
from orion_recall.recall.report.asked import options_of, scope_of_decision
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.values import JsonValue

_IDS = ("session_id", "user_id", "agent_id", "run_id")


def lost_by_record(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """The stage before any search that lost it; None where it could have been found."""
    asked_at = decision.created_at
    if memory.recorded_at > asked_at:
        by = round((memory.recorded_at - asked_at).total_seconds(), 3)
        return WhyNot(stage="not_stored", code="stored_later", by_how_much=by, unit="seconds")
    if memory.gone_at is not None and memory.gone_at <= asked_at:
        return _gone(memory, asked_at - memory.gone_at, before=True)
    behind = _behind(decision, memory)
    if behind is not None:
        return WhyNot(stage="not_indexed", code="behind", by_how_much=float(behind), unit="changes")
    return _not_asked_for(decision, memory)


def lost_since(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    """That a memory was deleted after the decision, so that asking again says nothing of it."""
    return None if memory.gone_at is None else _gone(memory, memory.gone_at - decision.created_at, before=False)


def time_of(decision: RecallDecisionV1, memory: MemoryFacts, lost: WhyNot) -> WhyNot:
    """A memory lost by the question's time, with how far it is from the nearest interval."""
    if memory.at is None:
        return replace(lost, facts={**lost.facts, "undated": True})
    time = (decision.understood or {}).get("time")
    intervals = cast("Mapping[str, Any]", time).get("intervals", ()) if isinstance(time, Mapping) else ()
    gap = _distance(memory.at, [(_moment(one.get("from")), _moment(one.get("until"))) for one in intervals])
    return lost if gap is None else replace(lost, by_how_much=round(gap, 3), unit="seconds")


def _gone(memory: MemoryFacts, apart: timedelta, *, before: bool) -> WhyNot:
    facts: dict[str, JsonValue] = {"when": "before" if before else "after", "by": memory.superseded_by}
    by = round(apart.total_seconds(), 3)
    code = "replaced" if memory.superseded_by else "deleted"
    return WhyNot(stage="deleted", code=code, by_how_much=by, unit="seconds", facts=facts)


def _behind(decision: RecallDecisionV1, memory: MemoryFacts) -> int | None:
    """How many changes behind the index was, where the memory was among them."""
    read = (decision.read_at or {}).get("index")
    if read is None or memory.unread is None or memory.unread_at is None or memory.unread_at > decision.created_at:
        return None
    return memory.unread - read


def _not_asked_for(decision: RecallDecisionV1, memory: MemoryFacts) -> WhyNot | None:
    scope, options = scope_of_decision(decision), options_of(decision)
    for name in _IDS:
        if (wanted := scope.get(name)) is not None and (own := getattr(memory, name)) != wanted:
            what = name.removesuffix("_id")
            return WhyNot(
                stage="scope", code="other_scope", facts={"what": what, "wanted": str(wanted), "own": own}
            )
    kinds, tags = _texts(scope.get("kinds")), _texts(scope.get("tags"))
    if kinds and not {memory.kind, memory.guessed_kind} & set(kinds):
        return WhyNot(stage="filter", code="other_kind", facts={"wanted": [*kinds], "own": memory.kind})
    if tags and not set(tags) & set(memory.tags):
        return WhyNot(stage="filter", code="other_tag", facts={"wanted": [*tags]})
    if memory.id in options.exclude:
        return WhyNot(stage="filter", code="excluded")
    as_of = options.as_of
    if as_of is not None and memory.at is not None and memory.at > as_of:
        by = round((memory.at - as_of).total_seconds(), 3)
        return WhyNot(stage="time", code="after_as_of", by_how_much=by, unit="seconds")
    return _outside(memory, options.since, options.until)


def _outside(memory: MemoryFacts, since: datetime | None, until: datetime | None) -> WhyNot | None:
    if since is None and until is None:
        return None
    if memory.at is None:
        return WhyNot(stage="time", code="undated")
    is_late = until is not None and memory.at >= until
    edge = until if is_late else since
    if edge is None or (not is_late and memory.at >= edge):
        return None
    by = round(abs((memory.at - edge).total_seconds()), 3)
    return WhyNot(stage="time", code="after_until" if is_late else "before_since", by_how_much=by, unit="seconds")


def _distance(at: datetime, intervals: Sequence[tuple[datetime | None, datetime | None]]) -> float | None:
    """Seconds to the nearest interval; None where there is none to be outside of."""
    gaps = [
        max((start - at).total_seconds() if start else 0.0, (at - end).total_seconds() if end else 0.0, 0.0)
        for start, end in intervals
    ]
    return min(gaps, default=None)


def _moment(told: object) -> datetime | None:
    return datetime.fromisoformat(told) if isinstance(told, str) else None


def _texts(value: object) -> list[str]:
    return [str(one) for one in cast("Sequence[object]", value)] if isinstance(value, list | tuple) else []
