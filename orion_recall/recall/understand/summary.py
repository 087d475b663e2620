"""The understanding of a query as JSON, for decision and trace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orion_recall.recall.understand.question import Understanding
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.when.times import session_words


def understood(understanding: Understanding, *, with_words: bool = True) -> dict[str, Any]:
    """JSON; `with_words` is False where no text of the query may be kept.

    Times are ISO 8601 in UTC, null where an interval has no end on that side.
    """
    time = understanding.question.time
    told: dict[str, Any] = {
        "intervals": [
            {
                "from": _instant(interval.start),
                "until": _instant(interval.end),
                "kind": interval.kind,
                **({"words": interval.words} if with_words else {}),
            }
            for interval in time.intervals
        ],
        "asks_when": time.asks_when,
        "session": None if time.session is None else session_words(time.session),
        "of": time.of if time.intervals else None,
        "widened": time.widened,
    }
    classified = understanding.classified
    rest: dict[str, Any] = {
        "class": classified.query_class,
        "shape": understanding.shape,
    }
    if with_words:
        rest["class_words"] = list(classified.words)
        rest["people"] = list(understanding.people)
        if understanding.asker is not None:
            rest["asker"] = understanding.asker
        if understanding.said_by is not None:
            rest["said_by"] = _said_by(understanding.said_by)
        rest["entities"] = [{"name": entity.name, "kind": entity.kind} for entity in understanding.entities]
    return {"time": told, **rest}


def _said_by(said: SaidBy) -> dict[str, Any]:
    """Whose words are asked for, and about what; `only`: nothing else answers, `then`: of a time as well."""
    return {
        "name": said.name,
        "speakers": list(said.speakers),
        "about": said.topic,
        "only": said.is_strict,
        "then": bool(said.intervals),
    }


def _instant(moment: float | None) -> str | None:
    """As ISO 8601; None for what is open, or beyond the years that a calendar has."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
