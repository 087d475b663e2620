"""What is read from the record itself: uses and metadata of memories, and text search while the index is away.

The search finds first the memories that hold every word of the question, by the inverted index; then those that
hold some, among the newest of the scope. Newest first bounds both, so that a table of any size costs the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, LiteralString, NamedTuple

from orion_recall.errors import ScopeNotKept
from orion_recall.postgres.pool import HeldConnections, Row
from orion_recall.text.normal import content_words, memory_key
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Hit, JsonValue, MemoryView, Scope, SearchRequest, SourceName, ToldTime, in_calendar

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
        rows = await self._fetch("reading how memories were used", _USES, tenant, ids)
        found = {row["id"]: MemoryUse(row["accesses"], row["used"], row["wrong"]) for row in rows}
        return {name: use for name, use in found.items() if any(use)}

    async def metadata(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, JsonValue]]:
        rows = await self._fetch("reading metadata", _METADATA, tenant, ids)
        return {row["id"]: row["metadata"] for row in rows}

    async def close(self) -> None:
        await self._connections.close()

    async def _fetch(self, doing: str, statement: LiteralString, tenant: str, ids: Sequence[str]) -> Sequence[Any]:
        return await self._connections.fetch(doing, statement, [tenant, list(ids)]) if ids else []


_MOST_WITH_EVERY_WORD, _NEWEST_FOR_SOME_WORDS, _MOST_WORDS = 500, 2000, 32
_AS_THEY_ARE = (
    "id", "text", "text_hash", "kind", "guessed_kind", "title", "speaker", "session_id", "user_id", "agent_id",
    "run_id", "uri",
)  # fmt: skip
_COLUMNS = f"{', '.join(_AS_THEY_ARE)}, ts, source, tags, entities, times, search"


class RecordSearch:
    """A source over the table `memories`, as a replacement of the keyword source."""

    name: SourceName = "lexical"

    def __init__(self, dsn: str) -> None:
        self._connections = HeldConnections(dsn, name="record-search")

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Memories that share words with the question, best first: from 1 on they hold all of its words."""
        statement, values = record_query(request)
        if not statement:
            return []
        rows = await self._connections.fetch("searching the record", statement, values)
        tenant = request.scope.tenant
        return [
            Hit(key=memory_key(tenant, row["id"]), score=row["score"], read=partial(_memory, row)) for row in rows
        ]

    async def close(self) -> None:
        await self._connections.close()


def record_query(request: SearchRequest) -> tuple[str, list[Any]]:
    """The SQL and its values; no SQL for a question without words. Every value is a parameter."""
    if request.scope.told:
        raise ScopeNotKept("the record cannot be searched by the times that texts tell")
    question = request.question
    every = list(dict.fromkeys(content_words(question.text)))[:_MOST_WORDS]
    some = list(dict.fromkeys((*every, *sorted(question.terms))))[:_MOST_WORDS]
    if not some:
        return "", []
    values: list[Any] = [" ".join(every), " or ".join(some), request.limit]
    scope = f"live AND {_conditions(request.scope, values)}"
    every_word, some_words = (f"websearch_to_tsquery('english', ${place})" for place in (1, 2))
    return (
        f"WITH every AS (SELECT {_COLUMNS}, 1.0 AS base FROM memories "  # noqa: S608 (values are parameters)
        f"WHERE {scope} AND search @@ {every_word} ORDER BY ts DESC NULLS LAST, id LIMIT {_MOST_WITH_EVERY_WORD}), "
        f"newest AS (SELECT {_COLUMNS} FROM memories WHERE {scope} AND ts IS NOT NULL "
        f"ORDER BY ts DESC LIMIT {_NEWEST_FOR_SOME_WORDS}), "
        f"found AS (SELECT * FROM every UNION ALL SELECT *, 0.0 FROM newest "
        f"WHERE search @@ {some_words} AND NOT search @@ {every_word}) "
        f"SELECT *, (base + ts_rank_cd(search, {some_words}, 32))::float8 AS score FROM found "
        "ORDER BY score DESC, ts DESC NULLS LAST, id LIMIT $3",
        values,
    )


def _conditions(scope: Scope, values: list[Any]) -> str:
    """The conditions of `in_scope` as SQL; the values are appended."""
    wanted: tuple[tuple[str, Any], ...] = (
        ("tenant = {}", scope.tenant),
        ("session_id = {}", scope.session_id),
        ("user_id = {}", scope.user_id),
        ("agent_id = {}", scope.agent_id),
        ("run_id = {}", scope.run_id),
        ("ARRAY[kind, guessed_kind] && {}::text[]", list(scope.kinds) or None),
        ("tags && {}::text[]", list(scope.tags) or None),
        ("speaker = ANY({}::text[])", list(scope.speakers) or None),
        ("ts >= {}::timestamptz", scope.since),
        ("ts < {}::timestamptz", scope.until),
        ("(ts <= {}::timestamptz) IS NOT FALSE", scope.as_of),
    )
    conditions: list[str] = []
    for condition, value in wanted:
        if value is not None:
            values.append(in_calendar(value) if isinstance(value, float | int) else value)
            conditions.append(condition.format(f"${len(values)}"))
    return " AND ".join(conditions)


def _memory(row: Row) -> MemoryView:
    moment: datetime | None = row["ts"]
    return MemoryView(
        **{name: row[name] for name in _AS_THEY_ARE},
        ts=moment.timestamp() if moment is not None else None,
        source_ref=row["source"] or "record",
        tags=tuple(row["tags"]),
        entities=tuple(row["entities"]),
        told=tuple(ToldTime(one["since"], one["until"], one["weekly"]) for one in row["times"]),
        chatter=is_chatter(row["text"]),
    )
