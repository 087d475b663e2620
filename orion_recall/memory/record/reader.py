"""Reads of the record apart from recalls: lists and searches, conditions of messages, the whole in pages."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from orion_recall.contracts import MemoryWhereV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record import sql
from orion_recall.memory.record.aliases import as_changes
from orion_recall.memory.record.compose import as_message
from orion_recall.postgres.pool import Connection, Pool, Row, borrow, fetched
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Change, Memory

_EQUAL = ("session_id", "user_id", "agent_id", "run_id", "speaker", "source")
_LISTS = {"kinds": "kind = ANY({}::text[])", "tags": "tags && {}::text[]", "entities": "entities && {}::text[]"}
_PLAIN_WORDS = "plainto_tsquery('english', {})"


async def matching(connection: Connection, tenant: str, where: MemoryWhereV1, limit: int) -> tuple[int, list[str]]:
    """How many live memories of the tenant meet every condition, and the first ids in the order of arrival."""
    if where.text is not None:
        nodes = await connection.fetchval(
            f"SELECT numnode({_PLAIN_WORDS.format('$1::text')})", storable(where.text)
        )
        if not nodes:
            raise InvalidMessage("payload.where.text: it has no word that can be searched for")
    condition, values = conditions(tenant, where)
    matching = f"FROM memories WHERE {condition}"
    count = await connection.fetchval(f"SELECT count(*) {matching}", *values)
    ids = f"SELECT id {matching} ORDER BY seq LIMIT ${len(values) + 1}"
    return count, [row["id"] for row in await connection.fetch(ids, *values, limit)]


def conditions(tenant: str | None, where: MemoryWhereV1 | None) -> tuple[str, Sequence[object]]:
    """The condition on live memories, and its values; without a tenant on those of all."""
    parts: list[tuple[str, object]] = [] if tenant is None else [("tenant = {}", storable(tenant))]
    given = {name: getattr(where, name, None) for name in _EQUAL}
    parts += [(f"{name} = {{}}", storable(value)) for name, value in given.items() if value is not None]
    for name, condition in _LISTS.items():
        if values := getattr(where, name, None):
            parts.append((condition, [storable(one) for one in values]))
    if where is not None and where.text is not None:
        parts.append((f"search @@ {_PLAIN_WORDS.format('{}::text')}", storable(where.text)))
    for name, condition in (("since", "ts >= {}::timestamptz"), ("until", "ts < {}::timestamptz")):
        if (value := getattr(where, name, None)) is not None:
            parts.append((condition, value))
    said = [condition.format(f"${place}") for place, (condition, _) in enumerate(parts, 1)]
    return " AND ".join((*said, "live")), [value for _, value in parts]


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
_DETAILS: LiteralString = """
SELECT m.*,
    (SELECT count(*) FROM memory_history h WHERE h.tenant = m.tenant AND h.memory_id = m.id) AS steps,
    ARRAY(
        SELECT r.id FROM memories r WHERE r.tenant = m.tenant AND r.superseded_by = m.id ORDER BY r.seq
    ) AS replaced,
    coalesce(a.count, 0) AS accesses, a.last_at AS accessed_at, e.extractor AS extraction_due,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.used)) AS used,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.wrong)) AS wrong
FROM memories m
LEFT JOIN memory_access a ON a.tenant = m.tenant AND a.id = m.id
LEFT JOIN memory_extractions e ON e.tenant = m.tenant AND e.memory_id = m.id
WHERE m.tenant = $1 AND m.id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """One row of a list. `at` is when it happened, else when it was mentioned, else (not dated) stored."""

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
    tags: Sequence[str]
    version: int
    score: float | None = None
    passage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """Everything that the record holds about a memory, live or not."""

    memory: Memory
    recorded_at: datetime
    updated_at: datetime | None
    steps: int
    replaced: Sequence[str]
    accesses: int
    accessed_at: datetime | None
    used: int
    wrong: int
    extraction_due: str | None


def _listed(rows: Sequence[Row]) -> list[ListedMemory]:
    return [ListedMemory(**{name: value for name, value in row.items() if name != "seq"}) for row in rows]


_PAGE = 1000
_STATES: LiteralString = """
SELECT m.tenant, m.id, m.version, m.live, o.memory_id IS NOT NULL AS in_flight
FROM memories m
LEFT JOIN (SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1) AS o
    ON o.tenant = m.tenant AND o.memory_id = m.id
"""
_QUEUED_AFTER: LiteralString = "SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1"


class MemoryName(NamedTuple):
    """The tenant and id of a memory."""

    tenant: str
    id: str


class RecordReader:
    """Reads the record apart from recalls. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def newest(self, tenant: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories that meet the conditions, newest first."""
        condition, values = conditions(tenant, where)
        query = _NEWEST.format(columns=_LISTED, condition=condition, limit=f"${len(values) + 1}")
        return _listed(await fetched(self._pool, "listing memories", query, *values, limit))

    async def search(self, tenant: str, words: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories with all words in title, speaker or text, best first; of equal ones the newest.

        English word forms match each other; "a phrase", `or` and `-word` are understood.
        """
        condition, values = conditions(tenant, where)
        asked = _QUERY.format(words=f"${len(values) + 1}")
        query = _SEARCH.format(columns=_LISTED, condition=condition, query=asked, limit=f"${len(values) + 2}")
        async with borrow(self._pool, "searching memories") as connection:
            if not await connection.fetchval(f"SELECT numnode({_QUERY.format(words='$1')})", storable(words)):
                raise InvalidMessage(f"{words!r} has no word that can be searched for, only such as 'the' and 'of'")
            rows = await connection.fetch(query, *values, storable(words), limit)
        return _listed(rows)

    async def details(self, tenant: str, memory_id: str) -> MemoryDetails | None:
        """Everything about one memory, None when there never was one."""
        rows = await fetched(self._pool, "reading a memory", _DETAILS, storable(tenant), storable(memory_id))
        others = [one.name for one in fields(MemoryDetails) if one.name != "memory"]
        found = [MemoryDetails(memory=sql.to_memory(row), **{name: row[name] for name in others}) for row in rows]
        return next(iter(found), None)

    def states(self, position: int) -> AsyncGenerator[list[Row]]:
        """Every memory, in pages, for a copy at that position of the outbox. One snapshot.

        Rows of tenant, id, version, whether it is live, and whether it is in flight: in the outbox after it.
        """
        return self._pages("comparing with the record", _STATES, position)

    async def changes_of(self, names: Sequence[MemoryName], position: int) -> list[Change]:
        """The memories as they are now, with their neighbours, as changes at that position."""
        tenants, ids = [name.tenant for name in names], [name.id for name in names]
        async with borrow(self._pool, "reading memories") as connection:
            rows = await connection.fetch(sql.CHANGES_OF, tenants, ids, position)
            return await as_changes(connection, rows)

    async def queued_after(self, position: int) -> frozenset[int]:
        """The keys of the memories in the outbox after that position."""
        rows = await fetched(self._pool, "reading the outbox", _QUEUED_AFTER, position)
        return frozenset(memory_key(row["tenant"], row["memory_id"]) for row in rows)

    async def exported(self, tenant: str | None, where: MemoryWhereV1 | None) -> AsyncGenerator[list[str]]:
        """The live memories that meet the conditions, one JSON object a line, in pages. One snapshot."""
        condition, values = conditions(tenant, where)
        query = f"SELECT * FROM memories WHERE {condition} ORDER BY seq"  # noqa: S608 (fixed columns)
        async with aclosing(self._pages("exporting memories", query, *values)) as pages:
            async for rows in pages:
                given = [as_message(sql.to_memory(row)) for row in rows]
                told = [one.model_dump(mode="json", exclude_defaults=True) for one in given]
                yield [json.dumps(one, ensure_ascii=False) for one in told]

    async def count(self, tenant: str | None = None, where: MemoryWhereV1 | None = None) -> int:
        """How many live memories meet the conditions."""
        condition, values = conditions(tenant, where)
        query = f"SELECT count(*) FROM memories WHERE {condition}"  # noqa: S608 (fixed columns)
        ((count,),) = await fetched(self._pool, "counting memories", query, *values)
        return int(count)

    async def _pages(self, doing: str, query: str, *values: Any) -> AsyncGenerator[list[Row]]:
        async with (
            borrow(self._pool, doing) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            cursor = await (await connection.prepare(query)).cursor(*values)
            while rows := await cursor.fetch(_PAGE):
                yield rows
