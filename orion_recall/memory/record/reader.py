"""Reads the whole record in pages: states for drift checks, changes for rewrites, memories for exports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from orion_recall.memory.record import sql
from orion_recall.memory.record.aliases import as_changes
from orion_recall.postgres.pool import Pool, Row, borrow
from orion_recall.values import Change, JsonValue, Memory

_PAGE = 1000

# In flight: in the outbox after the position. That part is small, unless the copy is new.
_STATES: LiteralString = """
SELECT m.tenant, m.id, m.version, m.live, o.memory_id IS NOT NULL AS in_flight
FROM memories m
LEFT JOIN (SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1) AS o
    ON o.tenant = m.tenant AND o.memory_id = m.id
"""
_QUEUED_AFTER: LiteralString = "SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1"
_LIVE: LiteralString = "SELECT tenant, id, seq FROM memories WHERE live AND seq > $1 ORDER BY seq LIMIT $2"
_COUNT: LiteralString = "SELECT count(*) FROM memories WHERE live"

_WANTED: LiteralString = """
WHERE live AND ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR session_id = $2)
  AND ($3::text[] IS NULL OR kind = ANY($3)) AND ($4::timestamptz IS NULL OR ts >= $4)
"""
_EXPORTED: LiteralString = "SELECT * FROM memories " + _WANTED + " ORDER BY seq"  # noqa: S608 (the text above)
_COUNT_EXPORTED: LiteralString = "SELECT count(*) FROM memories " + _WANTED  # noqa: S608 (the text above)
_HISTORIES: LiteralString = """
SELECT h.* FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN memory_history h ON h.tenant = given.tenant AND h.memory_id = given.id
ORDER BY h.id
"""


class MemoryName(NamedTuple):
    """The tenant and id of a memory."""

    tenant: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilters:
    """Filters of an export; None and no kinds mean all. `since` leaves undated memories out."""

    tenant: str | None = None
    session_id: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None


class MemoryState(NamedTuple):
    """The state that a copy should have of one memory: none unless it is live. `in_flight`: it may come later."""

    name: MemoryName
    version: int
    is_live: bool
    in_flight: bool


class RecordReader:
    """Reads a whole record, page by page. RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def states(self, position: int) -> AsyncGenerator[list[MemoryState]]:
        """Every memory, in pages, for a copy at that position of the outbox. One snapshot."""
        async with aclosing(self._pages("comparing with the record", _STATES, position)) as pages:
            async for rows in pages:
                yield [
                    MemoryState(MemoryName(row["tenant"], row["id"]), row["version"], row["live"], row["in_flight"])
                    for row in rows
                ]

    async def changes_of(self, names: Sequence[MemoryName], position: int) -> list[Change]:
        """The memories as they are now, with their neighbours, as changes at that position."""
        tenants, ids = [name.tenant for name in names], [name.id for name in names]
        async with borrow(self._pool, "reading memories") as connection:
            rows = await connection.fetch(sql.CHANGES_OF, tenants, ids, position)
            return await as_changes(connection, rows)

    async def queued_after(self, position: int) -> frozenset[MemoryName]:
        """The memories in the outbox after a position."""
        async with borrow(self._pool, "reading the outbox") as connection:
            rows = await connection.fetch(_QUEUED_AFTER, position)
        return frozenset(MemoryName(row["tenant"], row["memory_id"]) for row in rows)

    async def live(self, after: int, limit: int) -> tuple[list[MemoryName], int]:
        """The live memories after a sequence number, in the order of arrival, and the number of the last one."""
        async with borrow(self._pool, "reading memories") as connection:
            rows = await connection.fetch(_LIVE, after, limit)
        return [MemoryName(row["tenant"], row["id"]) for row in rows], rows[-1]["seq"] if rows else after

    async def count(self) -> int:
        """How many memories are live."""
        async with borrow(self._pool, "counting memories") as connection:
            return int(await connection.fetchval(_COUNT))

    async def exported(self, filters: ExportFilters) -> AsyncGenerator[list[Memory]]:
        """The live memories that pass the filters, in the order of arrival, in pages. One snapshot."""
        values = (filters.tenant, filters.session_id, list(filters.kinds) or None, filters.since)
        async with aclosing(self._pages("exporting memories", _EXPORTED, *values)) as pages:
            async for rows in pages:
                yield [sql.to_memory(row) for row in rows]

    async def count_exported(self, filters: ExportFilters) -> int:
        """How many memories `exported` gives."""
        values = (filters.tenant, filters.session_id, list(filters.kinds) or None, filters.since)
        async with borrow(self._pool, "counting memories") as connection:
            return int(await connection.fetchval(_COUNT_EXPORTED, *values))

    async def histories(self, names: Sequence[MemoryName]) -> dict[MemoryName, list[dict[str, JsonValue]]]:
        """Every step of each of the memories, oldest first, as JSON."""
        tenants, ids = [name.tenant for name in names], [name.id for name in names]
        async with borrow(self._pool, "reading histories") as connection:
            rows = await connection.fetch(_HISTORIES, tenants, ids)
        found: dict[MemoryName, list[dict[str, JsonValue]]] = {}
        for row in rows:
            step = {"version": row["version"], "op": row["op"], "at": row["at"].isoformat(), "actor": row["actor"]}
            step |= {"before": row["before"], "lineage": row["lineage"]}
            kept = {name: value for name, value in step.items() if value not in (None, {})}
            found.setdefault(MemoryName(row["tenant"], row["memory_id"]), []).append(kept)
        return found

    async def _pages(self, doing: str, query: str, *values: Any) -> AsyncGenerator[list[Row]]:
        async with (
            borrow(self._pool, doing) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            cursor = await (await connection.prepare(query)).cursor(*values)
            while rows := await cursor.fetch(_PAGE):
                yield rows
