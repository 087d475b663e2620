"""The `sql_timeline` arm: what happened lately, from a Postgres table or view of anybody's.

The rows of the window are narrowed by tenant and scope, and the newest of them ranked by whether and how well
their text matches, how recent they are in the window, and whether they are of the query's own session or node.
Text search runs over the window only: over a whole table an OR query takes most of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from orion_recall.errors import RecordError, SettingsError, SourceError, TransientSourceError
from orion_recall.postgres import (
    Connection,
    Record,
    close_connection,
    is_connection_lost,
    open_connection,
    quote_identifier,
    quote_qualified,
    translate,
)
from orion_recall.sources.mapped_ids import cited_id, mapped_key
from orion_recall.text import memory_key, text_hash
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName

log = logging.getLogger("orion_recall.sources")

ROLES = (
    "id", "ts", "text", "tenant", "title", "session_id", "node_id", "user_id", "kind", "speaker", "uri", "tags",
    "search",
)  # fmt: skip
# The view of the memories in our own schema; a table of others that is called so is named with its schema.
OWN_VIEW = "collapse_mirror"
_NEWEST = 200
_CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTable:
    """A table or view, and which of its columns plays which role; a role that is absent is not there.

    `tenant` is for a table that has no tenant column: the one tenant it belongs to. `cited_as` is the name of a
    mapped store: its rows are memories of their own, cited under it. Without it its ids are those of own memories.
    """

    name: str = OWN_VIEW
    columns: Mapping[str, str] = field(default_factory=lambda: {role: role for role in ROLES})
    tenant: str | None = None
    cited_as: str | None = None

    def __post_init__(self) -> None:
        for role in ("id", "ts", "text"):
            if not self.columns.get(role):
                raise SettingsError(f"ORION_TIMELINE_COLUMNS: the timeline needs a column for {role!r}")
        if not self.columns.get("tenant") and self.tenant is None:
            raise SettingsError(
                "ORION_TIMELINE_COLUMNS: no column holds the tenant; if the whole table belongs to one tenant, "
                "say which with ORION_TIMELINE_TENANT"
            )
        quote_qualified(self.name)
        for column in self.columns.values():
            quote_identifier(column)

    @property
    def is_of_others(self) -> bool:
        """Whether it is another table than the view in our own schema."""
        return self.cited_as is not None or self.name != OWN_VIEW

    @classmethod
    def mapped(cls, name: str, changes: Mapping[str, str], tenant: str | None) -> TimelineTable:
        """The table with some roles renamed, or left out by an empty column name."""
        columns = {role: role for role in ROLES} | dict(changes)
        if tenant is not None:
            columns["tenant"] = changes.get("tenant", "")
        return cls(name=name, columns={role: column for role, column in columns.items() if column}, tenant=tenant)


class TimelineSource:
    """Holds a few connections of its own, so that a slow timeline is never in the way of the decision log.

    They are held rather than borrowed from a pool: a pool resets a connection on its way back, which is one more
    round trip a query.
    """

    name: SourceName = "sql_timeline"

    def __init__(self, dsn: str, table: TimelineTable, *, connections: int = 4, timeout_ms: int = 5000) -> None:
        self._dsn, self._table, self._timeout_ms = dsn, table, timeout_ms
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(connections)

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The window's rows, best first; none for a tenant whose table this is not. The score is in [0, 1]."""
        if "tenant" not in self._table.columns and request.scope.tenant != self._table.tenant:
            return []
        statement, values = timeline_query(self._table, request)
        async with self._free:
            rows = await self._fetch(statement, values)
        return [_hit(row, request.scope.tenant, self._table) for row in rows]

    async def sample(self) -> tuple[Record | None, Sequence[str]]:
        """The newest row and the roles it has. SourceError when the table cannot be read as it is mapped."""
        columns = {role: column for role, column in self._table.columns.items() if role != "search"}
        chosen = ", ".join(f"{quote_identifier(column)} AS {role}" for role, column in columns.items())
        newest = f"{quote_identifier(columns['ts'])} DESC NULLS LAST"
        async with self._free:
            rows = await self._fetch(
                f"SELECT {chosen} FROM {quote_qualified(self._table.name)} ORDER BY {newest} LIMIT 1",  # noqa: S608
                [],
            )
        return rows[0] if rows else None, list(columns)

    async def warm(self) -> None:
        """Open one connection now; TransientSourceError when Postgres is away."""
        async with self._free:
            await self._fetch("SELECT 1 AS one", [])

    async def close(self) -> None:
        """Close what is held, a server that says nothing or not."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(close_connection(connection, _CLOSE_TIMEOUT_S) for connection in idle))

    async def _fetch(self, statement: str, values: Sequence[Any]) -> Sequence[Record]:
        try:
            connection = await self._connection()
        except RecordError as error:
            raise TransientSourceError(str(error)) from error
        try:
            with translate("reading the timeline"):
                rows = await connection.fetch(statement, *values)
        except RecordError as error:
            if is_connection_lost(error) or connection.is_closed():
                connection.terminate()
                raise TransientSourceError(str(error)) from error
            self._idle.append(connection)
            raise SourceError(str(error)) from error
        except BaseException:
            # Cancelled in the middle: the connection may still be waiting for rows nobody will read.
            connection.terminate()
            raise
        self._idle.append(connection)
        return rows

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await open_connection(
            self._dsn,
            name="timeline",
            statement_timeout_ms=self._timeout_ms,
            for_tables_of_others=self._table.is_of_others,
        )


def timeline_query(table: TimelineTable, request: SearchRequest) -> tuple[str, list[Any]]:
    """The SQL and its values. Identifiers are quoted, everything else is a parameter.

    Raises SourceError when the scope asks for what the table has no column for.
    """
    scope, question, columns = request.scope, request.question, table.columns
    since = question.now - request.window_minutes * 60
    values: list[Any] = [
        _moment(since if scope.since is None else max(since, scope.since)),
        _moment(question.now),
    ]
    # A column without a zone is read as UTC, which is the session's.
    conditions = [
        f"{_column(columns, 'ts')} >= $1::timestamptz",
        f"{_column(columns, 'ts')} <= $2::timestamptz",
        f"{_column(columns, 'text')} IS NOT NULL",
    ]
    wanted: list[tuple[str, Any, str]] = [
        ("ts", None if scope.until is None else _moment(scope.until), "< {}::timestamptz"),
        ("tenant", scope.tenant if "tenant" in columns else None, "= {}"),
        ("session_id", scope.session_id, "= {}"),
        ("user_id", scope.user_id, "= {}"),
        ("kind", list(scope.kinds) or None, "= ANY({})"),
        ("tags", list(scope.tags) or None, "&& {}"),
    ]
    for role, value, comparison in wanted:
        if value is None:
            continue
        values.append(value)
        conditions.append(f"{_column(columns, role)} {comparison.format(f'${len(values)}')}")
    values.append(" or ".join(sorted(question.terms)[:32]))
    # In a SELECT of its own it is read once; a plan for any values would read it anew for every row, twice.
    words = f"(SELECT websearch_to_tsquery('english', ${len(values)}))"
    searched = quote_identifier(columns["search"]) if "search" in columns else _vector(columns)
    values.extend((question.session_id, question.node_id, request.limit))
    session, node, limit = (f"${len(values) - back}" for back in (2, 1, 0))
    score = _score(words, _either(columns, session, node))
    chosen = ", ".join(
        f"{quote_identifier(columns[role])}{'::timestamptz' if role == 'ts' else ''} AS {role}"
        for role in ROLES[:-1]
        if role in columns
    )
    newest = (
        f"SELECT {chosen}, {searched} AS searched FROM {quote_qualified(table.name)} "  # noqa: S608 (quoted)
        f"WHERE {' AND '.join(conditions)} ORDER BY {_column(columns, 'ts')} DESC LIMIT {_NEWEST}"
    )
    roles = ", ".join(role for role in ROLES[:-1] if role in columns)
    return (
        f"SELECT {roles}, ({score})::float8 AS score FROM ({newest}) AS newest "  # noqa: S608 (quoted above)
        f"ORDER BY score DESC, ts DESC, id LIMIT {limit}",
        values,
    )


def _score(words: str, own: str) -> str:
    """SQL in [0, 1]: half for sharing a word at all, so that no row is ahead of one that does by being newer."""
    recency = (
        "coalesce(extract(epoch FROM ts - $1::timestamptz) "
        "/ nullif(extract(epoch FROM $2::timestamptz - $1::timestamptz), 0), 0)"
    )
    matched = f"coalesce((searched @@ {words})::int, 0)"
    # What shares no word has no rank: it is not worked out.
    rank = f"CASE WHEN searched @@ {words} THEN ts_rank_cd(searched, {words}, 32) ELSE 0 END"
    return f"0.5 * {matched} + 0.2 * ({rank}) + 0.2 * {recency} + 0.1 * {own}"


def _either(columns: Mapping[str, str], session: str, node: str) -> str:
    """SQL that is 1 when the row is of the query's session or node, else 0; both parameters are always used."""
    parts = [
        f"coalesce(session_id = {session}::text, false)" if "session_id" in columns else f"{session}::text = ''",
        f"coalesce(node_id = {node}::text, false)" if "node_id" in columns else f"{node}::text = ''",
    ]
    return f"(CASE WHEN {' OR '.join(parts)} THEN 1 ELSE 0 END)"


def _vector(columns: Mapping[str, str]) -> str:
    texts = [f"coalesce({quote_identifier(columns[role])}, '')" for role in ("title", "text") if role in columns]
    return "to_tsvector('english', " + " || ' ' || ".join(texts) + ")"


def _column(columns: Mapping[str, str], role: str) -> str:
    if role not in columns:
        raise SourceError(f"the timeline has no column for {role}: it cannot keep to this query's scope")
    return quote_identifier(columns[role])


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0.0), 4e9), UTC)


def _hit(row: Record, tenant: str, table: TimelineTable) -> Hit:
    # Most rows are in the index too, or are not ranked: the memory is made of those that are asked for.
    own_id = str(row["id"])
    key = mapped_key(table.cited_as, tenant, own_id) if table.cited_as else memory_key(tenant, own_id)
    return Hit(key=key, score=row["score"], read=partial(_memory, row, table))


def _memory(row: Record, table: TimelineTable) -> MemoryView:
    text = str(row["text"])
    moment: datetime | None = row["ts"]
    own_id = str(row["id"])
    return MemoryView(
        id=cited_id(table.cited_as, own_id) if table.cited_as else own_id,
        text=text,
        text_hash=text_hash(text),
        kind=_text(row, "kind"),
        title=_text(row, "title"),
        speaker=_text(row, "speaker"),
        session_id=_text(row, "session_id"),
        user_id=_text(row, "user_id"),
        ts=moment.timestamp() if moment is not None else None,
        uri=_text(row, "uri"),
        source_ref=table.cited_as or table.name,
        tags=_tags(row.get("tags")),
    )


def _text(row: Record, role: str) -> str | None:
    value = row.get(role)
    return None if value is None else str(value)


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(tag) for tag in value or ())
