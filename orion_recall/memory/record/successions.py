"""Successions in the record: recognised, confirmed and undone; they tell the copies of both ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record import successions_sql as sql
from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.postgres.pool import Connection, Pool, Row, borrow
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Memory, SuccessionLink

SuccessionState = Literal["candidate", "confirmed", "undone"]
_LONGEST_CHAIN = 50


class SetByHand(NamedTuple):
    """What came of a succession by hand, and the ids that it is about.

    `missing`: those of `ids` are not live; `cycle`: `ids` is the chain by which the older one succeeds the newer.
    """

    state: Literal["confirmed", "undone", "unchanged", "missing", "same", "cycle"]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSuccession:
    """A succession as the record holds it; `at` and `changed_at` in epoch seconds.

    A text is None where it was not asked for, or there is no such memory any more.
    """

    newer: str
    older: str
    confidence: float
    state: SuccessionState
    found_by: Literal["rule", "hand", "supersedes"]
    reason: str
    actor: str | None
    at: float
    changed_at: float | None
    newer_text: str | None
    older_text: str | None


class WrittenEdge(NamedTuple):
    """A recognised succession of one tenant."""

    tenant: str
    newer: str
    older: str
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSteps:
    """The next steps of the history: `begin` and `end` of them, and the live memories to compare, oldest first.

    `superseded` are (tenant, memory, the one that superseded it).
    """

    begin: int
    end: int
    memories: tuple[Memory, ...]
    superseded: tuple[tuple[str, str, str], ...] = ()


class Successions:
    """Reads and writes successions. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def due(self, limit: int) -> DueSteps | None:
        """The next steps that were not looked at, at most `limit`; None when there are none."""
        async with borrow(self._pool, "reading memories to compare") as connection:
            begin = int(await connection.fetchval(sql.PROGRESS))
            steps = await connection.fetch(sql.STEPS, begin, limit)
            if not steps:
                return None
            said = [step for step in steps if step["op"] in ("add", "update")]
            tenants, names = [step["tenant"] for step in said], [step["memory_id"] for step in said]
            rows = await connection.fetch(sql.TO_READ, tenants, names)
        return DueSteps(
            begin=begin,
            end=steps[-1]["step"],
            memories=tuple(record_sql.to_memory(row) for row in rows),
            superseded=tuple(
                (step["tenant"], step["memory_id"], step["superseded_by"])
                for step in steps
                if step["op"] == "supersede" and step["superseded_by"]
            ),
        )

    async def finish(self, due: DueSteps, found: Sequence[WrittenEdge]) -> bool:
        """Writes what the memories of the steps succeed, in one transaction; False if another worker was faster.

        What was confirmed or undone by a person stays as it is.
        """
        async with borrow(self._pool, "writing successions") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            if int(await connection.fetchval(sql.LOCK_PROGRESS)) != due.begin:
                return False
            told = await _write(connection, due.memories, found)
            for tenant, before, by in due.superseded:
                rows = await connection.fetch(sql.INHERIT, tenant, before, by)
                told |= {(tenant, row["older"]) for row in rows} | ({(tenant, by)} if rows else set())
            await _enqueue(connection, told)
            await connection.execute(sql.ADVANCE, due.end)
        return True

    async def start_over(self) -> None:
        """All memories are compared again, from the oldest step on; what a person said stays."""
        async with borrow(self._pool, "starting the recognition of successions over") as connection:
            await connection.execute(sql.ADVANCE, 0)

    async def by_hand(
        self, tenant: str, newer: str, older: str, *, undo: bool = False, actor: str | None = None
    ) -> SetByHand:
        """Says that one memory succeeds another, or that it does not. Both must be live; a cycle is refused."""
        if newer == older:
            return SetByHand("same", (newer,))
        tenant, newer, older = storable(tenant), storable(newer), storable(older)
        wanted: Literal["confirmed", "undone"] = "undone" if undo else "confirmed"
        async with borrow(self._pool, "writing a succession") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            rows = await connection.fetch(record_sql.GET, tenant, [newer, older])
            live = {memory.id for row in rows if (memory := record_sql.to_memory(row)).is_live}
            if missing := tuple(name for name in (newer, older) if name not in live):
                return SetByHand("missing", missing)
            if await connection.fetchval(sql.STATE, tenant, newer, older) == wanted:
                return SetByHand("unchanged", (newer, older))
            if not undo:
                limits = SUCCEEDS, _LONGEST_CHAIN
                chain = await connection.fetchval(sql.CHAIN_BACK, tenant, newer, older, *limits)
                if chain:
                    return SetByHand("cycle", tuple(chain))
            await connection.execute(sql.BY_HAND, tenant, newer, older, wanted, actor)
            await _enqueue(connection, {(tenant, newer), (tenant, older)})
        return SetByHand(wanted, (newer, older))

    async def of_memory(self, tenant: str, memory_id: str) -> list[HeldSuccession]:
        """Every succession of one memory, undone ones as well, oldest first."""
        async with borrow(self._pool, "reading successions") as connection:
            rows = await connection.fetch(sql.OF_MEMORY, storable(tenant), storable(memory_id))
        return [HeldSuccession(**dict(row)) for row in rows]

    async def of_tenant(
        self, tenant: str, *, least: float = SUCCEEDS, below: float | None = None, undone: bool = False, limit: int
    ) -> list[HeldSuccession]:
        """The successions of live memories, those of the newest memory first, at most `limit`.

        Recognised ones have a confidence from `least` up. With `below` there are only recognised ones, below it.
        Undone ones are left out unless `undone`.
        """
        async with borrow(self._pool, "reading successions") as connection:
            rows = await connection.fetch(sql.OF_TENANT, storable(tenant), least, below, undone, limit)
        return [HeldSuccession(**dict(row)) for row in rows]


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
                confidence=round(float(row["confidence"]), 3),
                at=row["at"],
                by=row["found_by"],
                reason=row["reason"],
            )
            links.setdefault((tenant, name), []).append(link)
    return {key: (tuple(older.get(key, ())), tuple(newer.get(key, ()))) for key in {*older, *newer}}


async def _write(
    connection: Connection, memories: Sequence[Memory], found: Sequence[WrittenEdge]
) -> set[tuple[str, str]]:
    """Puts in what is new and takes out what does not hold any more; tenant and id of all that it is about."""
    tenants, names = [memory.tenant for memory in memories], [memory.id for memory in memories]
    rows = await connection.fetch(sql.HELD, tenants, names)
    held = {(row["tenant"], row["newer"], row["older"]): row for row in rows}
    wanted = {(one.tenant, one.newer, one.older): one for one in found}
    new = [one for key, one in wanted.items() if key not in held or _differs(held[key], one)]
    gone = [
        key
        for key, row in held.items()
        if key not in wanted and row["state"] == "candidate" and row["found_by"] == "rule"
    ]
    if new:
        columns = zip(*new, strict=True)
        await connection.execute(sql.PUT, *(list(column) for column in columns))
    if gone:
        await connection.execute(sql.REMOVE, *(list(column) for column in zip(*gone, strict=True)))
    ends = [(one.tenant, one.newer, one.older) for one in new] + gone
    return {(tenant, name) for tenant, newer, older in ends for name in (newer, older)}


def _differs(row: Row, one: WrittenEdge) -> bool:
    return row["state"] == "candidate" and abs(row["confidence"] - one.confidence) > 1e-3  # real has seven digits


async def _enqueue(connection: Connection, names: Iterable[tuple[str, str]]) -> None:
    by_tenant: dict[str, list[str]] = {}
    for tenant, name in sorted(names):
        by_tenant.setdefault(tenant, []).append(name)
    for tenant, ids in by_tenant.items():
        await connection.fetch(record_sql.ENQUEUE, tenant, ids)
