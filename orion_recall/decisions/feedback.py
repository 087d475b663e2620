"""Feedback that callers gave on decisions, read from Postgres: of one, of many, and as judged recalls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from orion_recall.decisions.sql import with_advice
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, Row, borrow

_PAGE = 500

_WANTED: LiteralString = """
FROM recall_feedback f
WHERE ($1::text IS NULL OR f.tenant = $1) AND ($2::timestamptz IS NULL OR f.at >= $2)
"""
_COUNT: LiteralString = "SELECT count(*) " + _WANTED
# By the decision's own id, else by the correlation id; of a query that was sent again the last decision counts.
# What a shadow profile found was shown to nobody. A tenant's feedback is about its own decisions only.
_JUDGED: LiteralString = """
SELECT f.used, f.wrong, d.id, d.corr_id, d.tenant, d.profile, d.query, d.query_chars, d.created_at, d.scope,
       d.session_id, d.user_id, d.intent, d.understood ->> 'class' AS class, d.selected_ids,
       ARRAY(SELECT m.id FROM memories m
             WHERE m.tenant = d.tenant AND m.live
               AND m.id = ANY(ARRAY(SELECT jsonb_array_elements_text(d.selected_ids)))) AS live
FROM (SELECT * {wanted}) AS f
LEFT JOIN LATERAL (
    (SELECT * FROM recall_decisions
     WHERE f.decision_id IS NOT NULL AND shadow_of IS NULL AND tenant = f.tenant
       AND id = CASE WHEN f.decision_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                     THEN f.decision_id::uuid END)
    UNION ALL
    (SELECT * FROM recall_decisions
     WHERE f.decision_id IS NULL AND shadow_of IS NULL AND tenant = f.tenant AND corr_id = f.corr_id
     ORDER BY created_at DESC, id LIMIT 1)
) AS d ON true
ORDER BY d.created_at NULLS LAST, d.id, f.id
""".replace("{wanted}", _WANTED)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRecall:
    """A recall and all feedback on it, oldest first.

    `shown` are the ids of its answer, best first, `live` those of them that still exist. `query` is what the log
    keeps of a text of `query_chars` characters.
    """

    decision_id: str
    correlation_id: str
    tenant: str
    profile: str
    query: str
    query_chars: int
    asked_at: datetime
    scope: str | None
    session_id: str | None
    user_id: str | None
    intent: str | None
    query_class: str | None
    shown: tuple[str, ...]
    live: frozenset[str]
    feedback: tuple[FeedbackMessage, ...]


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


class FeedbackLog:
    """Feedback and decisions of one database. RecordError: Postgres is away, or this login may not read."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count(self, *, tenant: str | None = None, since: datetime | None = None) -> int:
        try:
            async with borrow(self._pool, "counting feedback") as connection:
                return int(await connection.fetchval(_COUNT, tenant, since))
        except RecordError as error:
            raise with_advice(error) from error

    async def read(
        self, *, tenant: str | None = None, since: datetime | None = None
    ) -> AsyncGenerator[tuple[JudgedRecall | None, int]]:
        """Every recall with feedback, oldest first, and how many messages it has.

        Then None for every message about a decision that is not in the log. One snapshot, read by a cursor.
        """
        rows: list[Row] = []
        async with aclosing(self._rows(tenant, since)) as pages:
            async for page in pages:
                for row in page:
                    if rows and rows[-1]["id"] != row["id"]:
                        yield _judged(rows), len(rows)
                        rows = []
                    if row["id"] is None:  # these come last, and only their number is needed
                        yield None, 1
                    else:
                        rows.append(row)
        if rows:
            yield _judged(rows), len(rows)

    async def _rows(self, *values: Any) -> AsyncGenerator[list[Row]]:
        try:
            async with (
                borrow(self._pool, "reading feedback") as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                cursor = await (await connection.prepare(_JUDGED)).cursor(*values)
                while rows := await cursor.fetch(_PAGE):
                    yield rows
        except RecordError as error:
            raise with_advice(error) from error


def _judged(rows: Sequence[Row]) -> JudgedRecall:
    row = rows[0]
    return JudgedRecall(
        decision_id=str(row["id"]),
        correlation_id=row["corr_id"],
        tenant=row["tenant"],
        profile=row["profile"],
        query=row["query"],
        query_chars=row["query_chars"],
        asked_at=row["created_at"],
        scope=row["scope"],
        session_id=row["session_id"],
        user_id=row["user_id"],
        intent=row["intent"],
        query_class=row["class"],
        shown=tuple(row["selected_ids"]),
        live=frozenset(row["live"]),
        feedback=tuple(FeedbackMessage(used=tuple(each["used"]), wrong=tuple(each["wrong"])) for each in rows),
    )
