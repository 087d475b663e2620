"""The record: the memories in Postgres, and the outbox from which index and graph are projected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orion_recall.contracts import MemoryVerdictV1
from orion_recall.errors import RecordError
from orion_recall.memory.record import sql
from orion_recall.memory.record.aliases import as_changes
from orion_recall.memory.record.changes import supersede
from orion_recall.memory.record.extraction_queue import queue_new
from orion_recall.postgres.pool import (
    POSTGRES_ERRORS,
    Connection,
    Pool,
    Row,
    borrow,
    close_connection,
    is_refusal,
    open_connection,
    reason,
    translate,
)
from orion_recall.text.normal import storable
from orion_recall.values import Change, Memory

_Key = tuple[str, str]

_IDENTITY_TIMEOUT_MS = 2000
# Six missed heartbeats.
GONE_AFTER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """The verdicts in the order of the memories.

    `position` is the outbox position at which all of them that are stored or unchanged are projected;
    None when there is none of these. `superseded` are those whose place they have taken, now or when they were
    stored before: tenant and id.
    """

    verdicts: tuple[MemoryVerdictV1, ...]
    position: int | None
    superseded: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPosition:
    """The position of a copy of index or graph, and its last heartbeat, `updated_at` in epoch seconds."""

    copy: str
    kind: str
    position: int
    updated_at: float
    silent_s: float = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether its worker seems to be gone: a worker gives a heartbeat every twenty seconds."""
        return self.silent_s > GONE_AFTER_S


class Record:
    """The memories of all tenants. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool, *, extractor: str = "light") -> None:
        self._pool, self._extractor = pool, extractor

    async def store(self, memories: Sequence[Memory]) -> StoreResult:
        """Stores a batch in one transaction; a memory that is stored with the same id and content is unchanged.

        A memory that Postgres refuses is rejected alone; memories that a new one supersedes are not recalled any
        more. The neighbours of a new one are queued again after it: the copies hold what is next to them.
        """
        if not memories:
            return StoreResult(verdicts=(), position=None)
        refused: dict[int, str] = {}
        async with borrow(self._pool, "storing memories") as connection, connection.transaction():
            # Held until the commit is visible: positions never become visible out of order.
            await connection.execute(sql.LOCK_OUTBOX)
            stored = await _insert(connection, memories, 0, refused)
            kept = [memory for index, memory in enumerate(memories) if index not in refused]
            held = await _held(connection, kept)
            unknown = await _supersede(connection, kept, stored)
            superseded = await _superseded(connection, kept)
            await queue_new(connection, [one for one in kept if (one.tenant, one.id) in stored], self._extractor)
        return _judge(memories, stored, held, refused, unknown, superseded)

    async def changes(self, after: int, limit: int) -> list[Change]:
        async with borrow(self._pool, "reading changes") as connection:
            rows = await connection.fetch(sql.CHANGES, after, limit)
            return await as_changes(connection, rows)

    async def head(self) -> int:
        async with borrow(self._pool, "reading the outbox") as connection:
            return int(await connection.fetchval(sql.HEAD))

    async def database_identity(self) -> str:
        """The database identity: when the schema was made, UTC. Copies keep it, and refuse every other database."""
        async with borrow(self._pool, "reading the database identity") as connection:
            return _identity_in(await connection.fetchval(sql.DATABASE_IDENTITY))

    async def report_position(self, copy: str, kind: str, position: int) -> None:
        """Stores the position of a copy, and its heartbeat; a copy that is rebuilt reports from 0."""
        async with borrow(self._pool, "reporting a position") as connection:
            await connection.execute(sql.REPORT_POSITION, copy, kind, position)

    async def heartbeat(self, copy: str, kind: str) -> None:
        async with borrow(self._pool, "storing a heartbeat") as connection:
            await connection.execute(sql.HEARTBEAT, copy, kind)

    async def forget(self, copy: str, *, silent_s: float = GONE_AFTER_S) -> list[str]:
        async with borrow(self._pool, "forgetting a copy") as connection:
            return [row["kind"] for row in await connection.fetch(sql.FORGET, copy, silent_s)]

    async def copies(self) -> list[CopyPosition]:
        async with borrow(self._pool, "reading positions") as connection:
            rows = await connection.fetch(sql.COPIES)
        return [CopyPosition(**dict(row)) for row in rows]

    async def touch(self, tenant: str, ids: Sequence[str]) -> None:
        """Counts one access of each of the ids, and one more for each time an id is repeated."""
        async with borrow(self._pool, "counting accesses") as connection:
            await connection.execute(sql.TOUCH, tenant, list(ids))

    async def get(self, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
        async with borrow(self._pool, "reading memories") as connection:
            rows = await connection.fetch(sql.GET, storable(tenant), [storable(name) for name in ids])
        return {row["id"]: sql.to_memory(row) for row in rows}


async def database_identity_at(dsn: str) -> str:
    """The database identity at an address, over a connection of its own; RecordError as the method's."""
    connection = await open_connection(dsn, name="mark", statement_timeout_ms=_IDENTITY_TIMEOUT_MS)
    try:
        with translate("reading the database identity"):
            return _identity_in(await connection.fetchval(sql.DATABASE_IDENTITY))
    finally:
        await close_connection(connection)


def _identity_in(value: str | None) -> str:
    if value is None:
        raise RecordError("reading the database identity: the schema is not there yet: run `orion-recall migrate`")
    return value


async def _insert(
    connection: Connection, memories: Sequence[Memory], first: int, refused: dict[int, str]
) -> set[_Key]:
    """The keys that are new. A batch that is refused is halved until the bad ones stand alone."""
    try:
        async with connection.transaction():
            given = [sql.to_row(memory, ordinal) for ordinal, memory in enumerate(memories)]
            rows = await connection.fetch(sql.STORE, given)
    except POSTGRES_ERRORS as error:
        if not is_refusal(error):
            raise
        if len(memories) == 1:
            refused[first] = reason(error)
            return set()
    else:
        return {(row["tenant"], row["id"]) for row in rows}
    middle = len(memories) // 2
    stored = await _insert(connection, memories[:middle], first, refused)
    return stored | await _insert(connection, memories[middle:], first + middle, refused)


async def _held(connection: Connection, memories: Sequence[Memory]) -> dict[_Key, Row]:
    keys = list(dict.fromkeys((memory.tenant, memory.id) for memory in memories))
    rows = await connection.fetch(sql.HELD, [tenant for tenant, _ in keys], [name for _, name in keys])
    return {(row["tenant"], row["id"]): row for row in rows}


async def _supersede(connection: Connection, memories: Sequence[Memory], stored: set[_Key]) -> dict[_Key, str]:
    """Puts the new memories in the place of those they name; by key, what is to be said of one left alone."""
    unknown: dict[_Key, str] = {}
    for memory in memories:
        key = (memory.tenant, memory.id)
        if memory.supersedes and key in stored:
            left_alone = await supersede(connection, memory.tenant, memory.supersedes, memory.id)
            if left_alone is not None:
                unknown[key] = left_alone
    return unknown


async def _superseded(connection: Connection, memories: Sequence[Memory]) -> dict[_Key, int]:
    """Where the outbox tells of those whose place the memories have taken, now or before: by key."""
    pairs = [(memory.tenant, name, memory.id) for memory in memories for name in memory.supersedes]
    if not pairs:
        return {}
    rows = await connection.fetch(sql.SUPERSEDED, *(list(column) for column in zip(*pairs, strict=True)))
    return {(row["tenant"], row["id"]): row["position"] for row in rows}


def _judge(
    memories: Sequence[Memory],
    stored: set[_Key],
    held: dict[_Key, Row],
    refused: dict[int, str],
    unknown: dict[_Key, str],
    superseded: dict[_Key, int],
) -> StoreResult:
    """Of equal ids in one batch the first one is stored, and the others are judged against it."""
    verdicts: list[MemoryVerdictV1] = []
    positions = list(superseded.values())
    unclaimed = set(stored)
    for index, memory in enumerate(memories):
        key, why = (memory.tenant, memory.id), None
        status: Literal["stored", "unchanged", "conflict", "rejected"] = "conflict"
        if index in refused:
            status, why = "rejected", refused[index]
        elif held[key]["deleted"]:
            why = "the memory of this id was deleted, and a deleted memory never comes back: take another id"
        elif held[key]["content_hash"] != memory.content_hash:
            why = "the id holds other content: update it (memory.update.v1), or take another id"
        else:
            status = "unchanged"
            if key in unclaimed:
                status, why = "stored", unknown.get(key)
                unclaimed.discard(key)
            positions.append(held[key]["position"])
        verdicts.append(MemoryVerdictV1(id=memory.id, status=status, reason=why))
    return StoreResult(
        verdicts=tuple(verdicts), position=max(positions, default=None), superseded=frozenset(superseded)
    )
