"""The `sql_timeline` source: recent rows of a Postgres table or view, the service's own or an external one.

The rows of the window are narrowed by tenant and scope, and the newest of them ranked by whether and how well
their text matches, how recent they are in the window, and whether they are of the query's own session or node.
Text search runs over the window only: over a whole table an OR query takes most of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, cast

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.postgres.address import quote_qualified, read_address
from orion_recall.postgres.pool import HeldConnections, Row
from orion_recall.sources.hits import MOST_TEXT, cited_id, mapped_key, tags_of
from orion_recall.sources.timeline_sql import COUNTED, count_query, sample_query, text_name, timeline_query
from orion_recall.sources.timeline_table import CATALOGUE, TimelineShape, TimelineTable, shape_of
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName

log = logging.getLogger("orion_recall.sources")

# The rows of a window are mostly those of the recall before.
_kept_key = lru_cache(maxsize=1024)(memory_key)


class TimelineSource:
    """The timeline source. Its own connections keep a slow timeline from delaying the decision log."""

    name: SourceName = "sql_timeline"

    def __init__(self, dsn: str, table: TimelineTable, *, connections: int = 4, timeout_ms: int = 5000) -> None:
        self._connections = HeldConnections(
            dsn,
            name="timeline",
            most=connections,
            timeout_ms=timeout_ms,
            for_external_tables=table.is_of_others,
        )
        self._table, self._own_schema = table, read_address(dsn).schema
        self._shape: TimelineShape | None = None
        self._counting: asyncio.Task[None] | None = None

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The window's rows, best first; none for a tenant whose table this is not. The score is in [0, 1]."""
        if not self.answers_for(request.scope.tenant):
            return []
        shape = await self.shape()
        statement, values = timeline_query(shape, request)
        try:
            rows = await self._fetch(statement, values)
        except TransientSourceError:
            raise
        except SourceError:
            self._shape = None  # the table may have been altered
            raise
        return [_hit(row, request.scope.tenant, shape) for row in rows]

    def answers_for(self, tenant: str) -> bool:
        return self._table.answers_for(tenant)

    async def shape(self) -> TimelineShape:
        """The table as it is in the database, looked up once. SourceError when it does not fit its mapping."""
        if self._shape is None:
            looked_up = [quote_qualified(self._table.name), self._own_schema]
            self._shape = shape_of(self._table, await self._fetch(CATALOGUE, looked_up))
            if (problem := self._shape.without_tenant) is not None:
                log.warning("%s", problem)
            elif self._shape.cited_as is not None and self._counting is None:
                self._counting = asyncio.create_task(self._warn_of_unreadable(self._shape))
        return self._shape

    async def sample(self) -> Mapping[str, str | None]:
        """The newest row by role, all as text, without what is searched; empty for an empty table."""
        shape = await self.shape()
        rows = await self._fetch(sample_query(shape), [])
        if not rows:
            return {}
        texts = [rows[0][text_name(place)] for place in range(len(shape.text))]
        roles = {role: rows[0][role] for role in shape.columns if role != "search"}
        return roles | {"text": _joined(texts, shape.labels) or None}

    async def lacking(self) -> tuple[int, Mapping[str, int]]:
        """The number of rows, `COUNTED` at most, and of those never found for want of a readable role, by role."""
        (row,) = await self._fetch(count_query(await self.shape()), [])
        return row["rows"], {role: row[role] for role in ("id", "ts", "text") if row[role]}

    async def close(self) -> None:
        if self._counting is not None and self._counting.cancel():
            await asyncio.wait([self._counting])
        await self._connections.close()

    async def _warn_of_unreadable(self, shape: TimelineShape) -> None:
        with contextlib.suppress(SourceError):  # a count that takes too long is of no use
            total, lacking = await self.lacking()
            if lacking:
                log.warning("the timeline %s: %s", shape.source_ref, unreadable_rows(total, lacking))

    async def _fetch(self, statement: str, values: Sequence[Any]) -> Sequence[Row]:
        return await self._connections.fetch("reading the timeline", statement, values)


def unreadable_rows(total: int, lacking: Mapping[str, int]) -> str:
    wants = {"id": "no id that can be used", "ts": "no time that can be read", "text": "no text"}
    of_them = f"{total:,} rows{' that were looked at' if total >= COUNTED else ''}"
    counts = "; ".join(f"{count:,} of {of_them} have {wants[role]}" for role, count in lacking.items())
    return f"{counts}: they are never found"


def _hit(row: Row, tenant: str, shape: TimelineShape) -> Hit:
    # Most rows are in the index too, or are not ranked: a memory is made only when it is read.
    key = mapped_key(shape.cited_as, tenant, row["id"]) if shape.cited_as else _kept_key(tenant, row["id"])
    return Hit(key=key, score=row["score"], read=partial(_memory, row, shape), source_ref=shape.source_ref)


def _memory(row: Row, shape: TimelineShape) -> MemoryView:
    text = _joined([row[text_name(place)] for place in range(len(shape.text))], shape.labels)
    moment: datetime = row["ts"]
    return MemoryView(
        id=cited_id(shape.cited_as, row["id"]) if shape.cited_as else row["id"],
        text=text,
        text_hash=text_hash(text),
        kind=row.get("kind"),
        title=row.get("title"),
        speaker=row.get("speaker"),
        session_id=row.get("session_id"),
        user_id=row.get("user_id"),
        agent_id=row.get("agent_id"),
        run_id=row.get("run_id"),
        ts=moment.timestamp(),
        uri=row.get("uri"),
        # An own memory may have been found by another source as well, and better: each hit says where it is from.
        source_ref=shape.source_ref if shape.cited_as else None,
        tags=tags_in(row.get("tags")),
        chatter=is_chatter(text),
    )


def _joined(texts: Sequence[str | None], labels: Sequence[str | None]) -> str:
    if len(texts) == 1 and labels[0] is None:
        return (texts[0] or "")[:MOST_TEXT]
    parts = zip(texts, labels, strict=True)
    lines = (f"{label}: {text}" if label else text for text, label in parts if text and text.strip())
    return "\n".join(lines)[:MOST_TEXT]


def tags_in(value: Any) -> tuple[str, ...]:
    """The tags of a list, of a JSON list as text, and of text with commas between them."""
    if isinstance(value, str):
        if value.lstrip().startswith(("[", "{")):
            with contextlib.suppress(ValueError, RecursionError):
                return tags_in(json.loads(value))
        value = [tag.strip() for tag in value.split(",")]
    if not isinstance(value, list | tuple):
        return ()
    return tags_of(cast("Sequence[object]", value))
