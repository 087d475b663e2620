"""Hints that newer executors add to a query; unreadable ones are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, cast

from pydantic import Field

from orion_recall.contracts.fields import Message, zoned_moment

# They have no effect here. Where they hold something they are counted as ignored fields.
IGNORED_HINTS = (
    "profile_explicit", "recall_phase", "retrieval_intent", "task_hints", "seed_crystallization_id",
    "active_packet_digest_budget", "concept_region_digest_budget",
)  # fmt: skip


class ExcludedTurn(Message):
    """The turn to answer, whose memories are left out.

    By `active_turn_ids`; and what says `active_turn_text` within three minutes of `active_turn_ts` (epoch seconds),
    or of now.
    """

    active_turn_ids: Annotated[tuple[str, ...], Field(strict=False)] = ()
    active_turn_text: str = ""
    active_turn_ts: float | None = None


def as_turn(value: object) -> object:
    """The readable parts of the hint; None where it is no object."""
    if isinstance(value, ExcludedTurn) or not isinstance(value, dict):
        return value if isinstance(value, ExcludedTurn) else None
    given = cast("dict[str, object]", value)
    ids, text, ts = (given.get(name) for name in ExcludedTurn.model_fields)
    told = cast("list[object]", ids) if isinstance(ids, list | tuple) else []
    return {
        "active_turn_ids": [one for one in told if isinstance(one, str) and one],
        "active_turn_text": text if isinstance(text, str) else "",
        "active_turn_ts": _epoch_s(ts),
    }


def as_text(value: object) -> object:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


def ignored_hints(payload: Mapping[str, object]) -> int:
    """The number of hints, or parts of them, that are not used or cannot be read."""
    count = sum(bool(payload.get(name)) for name in IGNORED_HINTS)
    lane, turn = payload.get("lane"), payload.get("exclude")
    count += bool(lane) and not isinstance(lane, str)
    if not isinstance(turn, dict):
        return count + bool(turn)
    given = cast("dict[str, object]", turn)
    ids, text, ts = (given.get(name) for name in ExcludedTurn.model_fields)
    if isinstance(ids, list):
        count += any(not isinstance(one, str) for one in cast("list[object]", ids))
    else:
        count += bool(ids)
    return count + (bool(text) and not isinstance(text, str)) + (bool(ts) and _epoch_s(ts) is None)


def _epoch_s(value: object) -> float | None:
    try:
        return zoned_moment(value).timestamp()
    except ValueError:
        return None
