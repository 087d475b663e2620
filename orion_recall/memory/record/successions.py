"""Successions in the record: stated and undone; they tell the copies of both ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record import successions_sql as sql
from orion_recall.memory.succession import BY_PERSON, STATING, SuccessionJudge, stated_by_extractor, values_of
from orion_recall.postgres.pool import Connection, Pool, borrow
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Memory, SuccessionLink, SuccessionReason

SuccessionState = Literal["stated", "undone"]
_LONGEST_CHAIN = 50
_MOST_JUDGED = 200


class SetByPerson(NamedTuple):
    """What came of a person's word on a succession, and the ids that it is about.

    `missing`: those of `ids` are not live; `cycle`: `ids` is the chain by which the older one succeeds the newer.
    """

    state: Literal["stated", "undone", "unchanged", "missing", "same", "cycle"]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSuccession:
    """A succession as the record holds it; `at` and `changed_at` in epoch seconds.

    A text is None where it was not asked for, or there is no such memory any more.
    """

    newer: str
    older: str
    probability: float
    state: SuccessionState
    reason: SuccessionReason
    evidence: Sequence[str]
    actor: str | None
    at: float
    changed_at: float | None
    newer_text: str | None
    older_text: str | None


class Successions:
    """Reads and writes successions. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def by_person(
        self, tenant: str, newer: str, older: str, *, undo: bool = False, actor: str | None = None
    ) -> SetByPerson:
        """Says that one memory succeeds another, or that it does not. Both must be live; a cycle is refused."""
        if newer == older:
            return SetByPerson("same", (newer,))
        tenant, newer, older = storable(tenant), storable(newer), storable(older)
        wanted: SuccessionState = "undone" if undo else "stated"
        async with borrow(self._pool, "writing a succession") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            rows = await connection.fetch(record_sql.GET, tenant, [newer, older])
            live = {memory.id for row in rows if (memory := record_sql.to_memory(row)).is_live}
            if missing := tuple(name for name in (newer, older) if name not in live):
                return SetByPerson("missing", missing)
            if await connection.fetchval(sql.STATE, tenant, newer, older) == wanted:
                return SetByPerson("unchanged", (newer, older))
            if not undo and (chain := await _chain_back(connection, tenant, newer, older)):
                return SetByPerson("cycle", tuple(chain))
            probability, reason, _ = BY_PERSON
            await connection.execute(sql.BY_PERSON, tenant, newer, older, probability, wanted, reason, actor)
            await _enqueue(connection, tenant, (newer, older))
        return SetByPerson(wanted, (newer, older))

    async def of_memory(self, tenant: str, memory_id: str) -> list[HeldSuccession]:
        """Every succession of one memory, undone ones as well, oldest first."""
        async with borrow(self._pool, "reading successions") as connection:
            rows = await connection.fetch(sql.OF_MEMORY, storable(tenant), storable(memory_id))
        return [HeldSuccession(**dict(row)) for row in rows]


async def write_judged(
    connection: Connection, memory: Memory, judge: SuccessionJudge = stated_by_extractor
) -> None:
    """Writes what the judge says of a memory that was just extracted and others of its owner; takes back what does
    not hold any more. What a person said stays. In the caller's transaction and under its lock on the outbox.
    """
    subjects = {subject for subject, _ in values_of(memory.statements)}
    named = [name for name in memory.entities if name.casefold() in subjects]
    others: list[Memory] = []
    if named and memory.extracted_by == STATING:
        limits = STATING, _MOST_JUDGED
        rows = await connection.fetch(sql.OF_SUBJECTS, memory.tenant, memory.id, named, *limits)
        others = [record_sql.to_memory(row) for row in rows]
    judged = [
        (older, newer, verdict)
        for other in others
        for older, newer in _in_order(memory, other)
        if (verdict := judge(older, newer)) is not None
    ]
    pairs = [newer.id for _, newer, _ in judged], [older.id for older, _, _ in judged]
    gone = await connection.fetch(sql.NO_MORE_STATED, memory.tenant, memory.id, *pairs)
    changed = [row[end] for row in gone for end in ("newer", "older")]
    for older, newer, (probability, reason, evidence) in judged:
        if await _chain_back(connection, memory.tenant, newer.id, older.id):
            continue
        given = memory.tenant, newer.id, older.id, probability, reason, list(evidence)
        if await connection.fetchval(sql.STATED, *given) is not None:
            changed += [newer.id, older.id]
    await _enqueue(connection, memory.tenant, changed)


async def inherit(connection: Connection, tenant: str, before: Sequence[str], by: str) -> None:
    """The memory `by` takes over what those succeed that it supersedes, in the caller's transaction."""
    if before and (rows := await connection.fetch(sql.INHERIT, tenant, list(before), by)):
        await _enqueue(connection, tenant, [by, *(row["older"] for row in rows)])


async def read_links(
    connection: Connection, memories: Sequence[Memory]
) -> Mapping[tuple[str, str], tuple[tuple[SuccessionLink, ...], tuple[SuccessionLink, ...]]]:
    """By tenant and id: the older memories that a memory succeeds, and the newer ones that succeed it."""
    keys = [(memory.tenant, memory.id) for memory in memories]
    if not keys:
        return {}
    rows = await connection.fetch(sql.LINKS, *(list(part) for part in zip(*keys, strict=True)))
    older: dict[tuple[str, str], list[SuccessionLink]] = {}
    newer: dict[tuple[str, str], list[SuccessionLink]] = {}
    for row in rows:
        tenant = row["tenant"]
        for name, other, links in ((row["newer"], row["older"], older), (row["older"], row["newer"], newer)):
            link = SuccessionLink(
                key=memory_key(tenant, other),
                id=other,
                at=row["at"],
                reason=row["reason"],
                probability=round(float(row["probability"]), 3),
                evidence=tuple(row["evidence"]),
            )
            links.setdefault((tenant, name), []).append(link)
    return {key: (tuple(older.get(key, ())), tuple(newer.get(key, ()))) for key in {*older, *newer}}


def _in_order(one: Memory, other: Memory) -> list[tuple[Memory, Memory]]:
    """The older one and the newer one; nothing where their times do not say which is which."""
    first, second = _time(one), _time(other)
    if first is None or second is None or first == second:
        return []
    return [(one, other) if first < second else (other, one)]


def _time(memory: Memory) -> float | None:
    return memory.mentioned_at if memory.occurred_at is None else memory.occurred_at


async def _chain_back(connection: Connection, tenant: str, newer: str, older: str) -> list[str] | None:
    return await connection.fetchval(sql.CHAIN_BACK, tenant, newer, older, _LONGEST_CHAIN)


async def _enqueue(connection: Connection, tenant: str, ids: Iterable[str]) -> None:
    if names := sorted(set(ids)):
        await connection.fetch(record_sql.ENQUEUE, tenant, names)
