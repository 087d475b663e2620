"""Reads the record for the command line: newest memories, text search, id prefixes, one memory in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from orion_recall.contracts import MemoryWhereV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record import sql
from orion_recall.memory.record.where import conditions
from orion_recall.postgres.pool import Pool, Row, borrow
from orion_recall.text.normal import storable
from orion_recall.values import Memory

_LISTED: LiteralString = (
    "id, text, kind, title, speaker, session_id, user_id, tags, version, coalesce(ts, recorded_at) AS at, "
    "ts IS NOT NULL AS is_dated, recorded_at, seq"
)
# Two parts, so that the dated one is read by the index on time.
_NEWEST = """
SELECT * FROM (
    (SELECT {columns} FROM memories WHERE {condition} AND ts IS NOT NULL ORDER BY ts DESC, seq DESC LIMIT {limit})
    UNION ALL
    (SELECT {columns} FROM memories WHERE {condition} AND ts IS NULL ORDER BY recorded_at DESC, seq DESC
     LIMIT {limit})
) AS both_parts ORDER BY at DESC, seq DESC LIMIT {limit}
"""
_QUERY = "websearch_to_tsquery('english', {words}::text)"
_SEARCH = """
SELECT {columns}, ts_rank_cd(search, query)::float8 AS score,
    CASE WHEN length(text) <= 240 THEN text ELSE ts_headline(
        'english', text, query, 'StartSel="", StopSel="", MaxFragments=2, MaxWords=24, MinWords=12'
    ) END AS passage
FROM memories, {query} AS query
WHERE {condition} AND search @@ query ORDER BY score DESC, at DESC, seq DESC LIMIT {limit}
"""
_STARTING: LiteralString = """
SELECT id FROM memories WHERE tenant = $1 AND (id = $2 OR starts_with(id, $2) AND (live OR NOT $3))
ORDER BY id <> $2, id LIMIT $4
"""
_DETAILS: LiteralString = """
SELECT m.*,
    (SELECT count(*) FROM memory_history h WHERE h.tenant = m.tenant AND h.memory_id = m.id) AS steps,
    ARRAY(
        SELECT r.id FROM memories r WHERE r.tenant = m.tenant AND r.superseded_by = m.id ORDER BY r.seq
    ) AS replaced,
    (SELECT a.count FROM memory_access a WHERE a.tenant = m.tenant AND a.id = m.id) AS accesses,
    (SELECT a.last_at FROM memory_access a WHERE a.tenant = m.tenant AND a.id = m.id) AS accessed_at,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.used)) AS used,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.wrong)) AS wrong,
    (
        SELECT e.extractor FROM memory_extractions e WHERE e.tenant = m.tenant AND e.memory_id = m.id
    ) AS extraction_due
FROM memories m WHERE m.tenant = $1 AND m.id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """One row of a list. `at` is when it happened, else when it was mentioned, else (not dated) when it was stored.

    A search gives its `score` and the `passage` with the words as well: of a long text up to two parts.
    """

    id: str
    at: datetime
    is_dated: bool
    recorded_at: datetime
    text: str
    kind: str
    title: str | None
    speaker: str | None
    session_id: str | None
    user_id: str | None
    tags: tuple[str, ...]
    version: int
    score: float | None = None
    passage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """Everything that the record holds about a memory, live or not.

    `replaced` are the memories that it superseded; `accesses` counts answers that had it among the first fifty;
    `used` and `wrong` count feedback; `extraction_due` is the extractor that it waits for.
    """

    memory: Memory
    recorded_at: datetime
    updated_at: datetime | None
    steps: int
    replaced: tuple[str, ...]
    accesses: int
    accessed_at: datetime | None
    used: int
    wrong: int
    extraction_due: str | None


class RecordBrowser:
    """Reads the record for the command line. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def newest(self, tenant: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories that meet the conditions, newest first."""
        condition, values = _conditions(tenant, where)
        query = _NEWEST.format(columns=_LISTED, condition=condition, limit=f"${len(values) + 1}")
        async with borrow(self._pool, "listing memories") as connection:
            rows = await connection.fetch(query, *values, limit)
        return [_listed(row) for row in rows]

    async def search(self, tenant: str, words: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories with all words in title, speaker or text, best first; of equal ones the newest.

        English word forms match each other; "a phrase", `or` and `-word` are understood. InvalidMessage where there
        is no word to search for.
        """
        condition, values = _conditions(tenant, where)
        asked = _QUERY.format(words=f"${len(values) + 1}")
        query = _SEARCH.format(columns=_LISTED, condition=condition, query=asked, limit=f"${len(values) + 2}")
        async with borrow(self._pool, "searching memories") as connection:
            if not await connection.fetchval(f"SELECT numnode({_QUERY.format(words='$1')})", storable(words)):
                raise InvalidMessage(f"{words!r} has no word that can be searched for, only such as 'the' and 'of'")
            rows = await connection.fetch(query, *values, storable(words), limit)
        return [_listed(row) for row in rows]

    async def ids_starting(self, tenant: str, prefix: str, limit: int, *, live_only: bool = False) -> list[str]:
        """The ids that begin so, the equal one first. With `live_only` others than that one are live."""
        async with borrow(self._pool, "reading ids") as connection:
            rows = await connection.fetch(_STARTING, storable(tenant), storable(prefix), live_only, limit)
        return [row["id"] for row in rows]

    async def details(self, tenant: str, memory_id: str) -> MemoryDetails | None:
        """Everything about one memory, None when there never was one."""
        async with borrow(self._pool, "reading a memory") as connection:
            row = await connection.fetchrow(_DETAILS, storable(tenant), storable(memory_id))
        return None if row is None else _details(row)


def _conditions(tenant: str, where: MemoryWhereV1 | None) -> tuple[str, Sequence[object]]:
    return ("tenant = $1 AND live", [storable(tenant)]) if where is None else conditions(tenant, where)


def _listed(row: Row) -> ListedMemory:
    values: Mapping[str, Any] = {**row, "tags": tuple(row["tags"])}
    return ListedMemory(**{name: value for name, value in values.items() if name != "seq"})


def _details(row: Row) -> MemoryDetails:
    return MemoryDetails(
        memory=sql.to_memory(row),
        recorded_at=row["recorded_at"],
        updated_at=row["updated_at"],
        steps=row["steps"],
        replaced=tuple(row["replaced"]),
        accesses=row["accesses"] or 0,
        accessed_at=row["accessed_at"],
        used=row["used"],
        wrong=row["wrong"],
        extraction_due=row["extraction_due"],
    )
