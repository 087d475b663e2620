"""What the record says of memories that a decision selected, or did not, and the feedback of callers on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from orion_recall.decisions.log import with_advice
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, Row, borrow, sqlstate
from orion_recall.text.normal import storable

_FACTS: LiteralString = """
SELECT m.id, m.kind, m.guessed_kind, m.tags, m.session_id, m.user_id, m.agent_id, m.run_id, m.ts AS at,
       m.recorded_at, m.superseded_by,
       coalesce(m.deleted_at, CASE WHEN m.superseded_by IS NOT NULL THEN (
           SELECT max(h.at) FROM memory_history h
           WHERE h.tenant = m.tenant AND h.memory_id = m.id AND h.op = 'supersede') END) AS gone_at,
       unread.position AS unread, unread.recorded_at AS unread_at
FROM memories m
LEFT JOIN LATERAL (
    SELECT o.position, o.recorded_at FROM outbox o
    WHERE o.tenant = m.tenant AND o.memory_id = m.id AND o.position > $3 ORDER BY o.position LIMIT 1
) AS unread ON true
WHERE m.tenant = $1 AND m.id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """One memory of the record, without its text.

    `gone_at` is when it was deleted or replaced. `unread` is its first change in the outbox after the position that
    was asked about, and `unread_at` when that was written.
    """

    id: str
    kind: str
    guessed_kind: str | None
    tags: tuple[str, ...]
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    run_id: str | None
    at: datetime | None
    recorded_at: datetime
    superseded_by: str | None
    gone_at: datetime | None
    unread: int | None
    unread_at: datetime | None


async def memory_facts(pool: Pool, tenant: str, memory_id: str, *, position: int) -> MemoryFacts | None:
    """The memory; None where the tenant has none of that id. RecordError, also for a login without the rights."""
    try:
        async with borrow(pool, "reading a memory") as connection:
            row = await connection.fetchrow(_FACTS, tenant, storable(memory_id), position)
    except RecordError as error:
        raise with_advice(error) from error
    if row is None:
        return None
    values: dict[str, Any] = {**dict(row.items()), "tags": tuple(row["tags"])}
    return MemoryFacts(**values)


_TEXTS: LiteralString = """
SELECT rank, memory_id, state, text, speaker, ts AS at FROM recall_texts WHERE decision_id = $1 ORDER BY rank
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
    return SelectedTexts(items=tuple(SelectedText(**dict(row.items())) for row in rows))


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
class Judged:
    """All feedback on one answer: the ids of the memories that callers used, and of those that were wrong."""

    used: frozenset[str] = frozenset()
    wrong: frozenset[str] = frozenset()


async def feedback_on(pool: Pool, tenant: str, decision_id: str, corr_id: str) -> Sequence[Row]:
    """The feedback on a decision, named by its id or its correlation id, oldest first. RecordError.

    `used` and `wrong` are ids; note, actor and at go with them.
    """
    async with borrow(pool, "reading feedback") as connection:
        return await connection.fetch(_GIVEN, tenant, decision_id, corr_id)


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
