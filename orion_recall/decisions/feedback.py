"""Feedback that callers gave on decisions, read from Postgres: of one, and of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from orion_recall.decisions.sql import with_advice
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow

_OF_DECISIONS: LiteralString = """
SELECT d.id::text AS id, f.used, f.wrong FROM recall_decisions d JOIN recall_feedback f
    ON f.tenant = d.tenant AND (f.decision_id = d.id::text OR f.decision_id IS NULL AND f.corr_id = d.corr_id)
WHERE d.id = ANY($1::uuid[])
"""
_GIVEN: LiteralString = """
SELECT used, wrong, note, actor, at FROM recall_feedback
WHERE tenant = $1 AND (decision_id = $2 OR (decision_id IS NULL AND corr_id = $3)) ORDER BY at, id LIMIT 200
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackMessage:
    """One message of feedback: the ids that were of use, and those that were wrong."""

    used: tuple[str, ...]
    wrong: tuple[str, ...]
    note: str | None = None
    actor: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All feedback on one answer: the ids of the memories that callers used, and of those that were wrong."""

    used: frozenset[str] = frozenset()
    wrong: frozenset[str] = frozenset()


async def feedback_on(pool: Pool, tenant: str, decision_id: str, corr_id: str) -> list[FeedbackMessage]:
    """The feedback on a decision, named by its id or its correlation id, oldest first. RecordError."""
    async with borrow(pool, "reading feedback") as connection:
        rows = await connection.fetch(_GIVEN, tenant, decision_id, corr_id)
    return [
        FeedbackMessage(
            used=tuple(row["used"]), wrong=tuple(row["wrong"]), note=row["note"], actor=row["actor"], at=row["at"]
        )
        for row in rows
    ]


async def judgements(pool: Pool, ids: Sequence[UUID]) -> Mapping[str, Judged]:
    """The feedback on these decisions by id; none where this login may not read it. RecordError."""
    found: dict[str, Judged] = {}
    try:
        async with borrow(pool, "reading feedback") as connection:
            rows = await connection.fetch(_OF_DECISIONS, list(ids))
    except RecordError as error:
        if with_advice(error) is error:  # it is not for want of a right
            raise
        return found
    for row in rows:
        known = found.get(row["id"], Judged())
        found[row["id"]] = Judged(used=known.used.union(row["used"]), wrong=known.wrong.union(row["wrong"]))
    return found
