"""Texts of the memories that a decision selected, for whoever may read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow, sqlstate

_TEXTS: LiteralString = """
SELECT rank, memory_id, state, text, speaker, ts FROM recall_texts WHERE decision_id = $1 ORDER BY rank
"""
_WHY_NOT = {
    "42501": "this login may not read them; one that is a member of orion_reader may",
    "42P01": "the schema is of an earlier version: run `orion-recall migrate`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedText:
    """An item of an answer with the memory's text as it is now; `text` is None where it is deleted or gone.

    `state` says what became of the memory since: unchanged, changed, superseded, deleted or gone.
    """

    rank: int
    memory_id: str
    state: str
    text: str | None
    speaker: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTexts:
    """The texts of a decision's items, best first; without the right to read them none, and `why_not`."""

    items: tuple[SelectedText, ...] = ()
    why_not: str | None = None


async def selected_texts(pool: Pool, decision_id: str) -> SelectedTexts:
    """The texts of what the decision selected. RecordError: Postgres is away."""
    try:
        async with borrow(pool, "reading texts") as connection:
            rows = await connection.fetch(_TEXTS, UUID(decision_id))
    except RecordError as error:
        state = sqlstate(error.__cause__) if error.__cause__ is not None else None
        if (why := _WHY_NOT.get(state or "")) is None:
            raise
        return SelectedTexts(why_not=why)
    return SelectedTexts(
        items=tuple(
            SelectedText(
                rank=row["rank"],
                memory_id=row["memory_id"],
                state=row["state"],
                text=row["text"],
                speaker=row["speaker"],
                at=row["ts"],
            )
            for row in rows
        )
    )
