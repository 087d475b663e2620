"""The feedback that was given on one decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from orion_recall.postgres.pool import Pool, borrow

_GIVEN: LiteralString = """
SELECT used, wrong, note, actor, at FROM recall_feedback
WHERE tenant = $1 AND (decision_id = $2 OR (decision_id IS NULL AND corr_id = $3)) ORDER BY at, id LIMIT 200
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFeedback:
    """One message of feedback: ids of memories that were of use, and of those that were wrong."""

    used: tuple[str, ...]
    wrong: tuple[str, ...]
    note: str | None
    actor: str | None
    at: datetime


async def feedback_on(pool: Pool, tenant: str, decision_id: str, corr_id: str) -> list[GivenFeedback]:
    """The feedback on a decision, named by its id or its correlation id, oldest first. RecordError."""
    async with borrow(pool, "reading feedback") as connection:
        rows = await connection.fetch(_GIVEN, tenant, decision_id, corr_id)
    return [
        GivenFeedback(
            used=tuple(row["used"]),
            wrong=tuple(row["wrong"]),
            note=row["note"],
            actor=row["actor"],
            at=row["at"],
        )
        for row in rows
    ]
