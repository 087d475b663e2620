"""What only the record knows of memories: how they were used, and their metadata. Asked for a few, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

from orion_recall.postgres.held_connections import HeldConnections
from orion_recall.values import JsonValue

_USES: LiteralString = """
SELECT wanted.id, coalesce(a.count, 0) AS accesses,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = $1 AND f.used @> ARRAY[wanted.id]) AS used,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = $1 AND f.wrong @> ARRAY[wanted.id]) AS wrong
FROM unnest($2::text[]) AS wanted (id) LEFT JOIN memory_access a ON a.tenant = $1 AND a.id = wanted.id
"""
_METADATA: LiteralString = """
SELECT id, metadata FROM memories WHERE tenant = $1 AND id = ANY($2::text[]) AND live AND metadata <> '{}'
"""


class MemoryUse(NamedTuple):
    """How often a memory was among the first of an answer, and how often callers said it was of use, or wrong."""

    accesses: int = 0
    used: int = 0
    wrong: int = 0


class RecordFacts:
    """Reads them from Postgres. SourceError while it is away."""

    def __init__(self, dsn: str) -> None:
        self._connections = HeldConnections(dsn, name="record-facts")

    async def uses(self, tenant: str, ids: Sequence[str]) -> Mapping[str, MemoryUse]:
        """The use of each memory that was used at all, by id."""
        rows = await self._fetch("reading how memories were used", _USES, tenant, ids)
        found = {row["id"]: MemoryUse(row["accesses"], row["used"], row["wrong"]) for row in rows}
        return {name: use for name, use in found.items() if any(use)}

    async def metadata(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, JsonValue]]:
        """The metadata of each live memory that has some, by id."""
        rows = await self._fetch("reading metadata", _METADATA, tenant, ids)
        return {row["id"]: row["metadata"] for row in rows}

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def _fetch(self, doing: str, statement: LiteralString, tenant: str, ids: Sequence[str]) -> Sequence[Any]:
        return await self._connections.fetch(doing, statement, [tenant, list(ids)]) if ids else []
