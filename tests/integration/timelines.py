"""Questions to a timeline, and tables of others for it to read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from orion_recall.postgres.pool import open_connection
from orion_recall.sources.timeline import TimelineSource, TimelineTable
from orion_recall.text.normal import content_words, text_hash
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest

NOW = 1_772_366_400.0
OWN = TimelineTable()


def ask(text: str = "crane", *, minutes: int = 180, limit: int = 10, **fields: Any) -> SearchRequest:
    """A request; `session` and `node` are the query's own, the other fields are the scope's."""
    session, node = fields.pop("session", None), fields.pop("node", None)
    question = Question(
        text=text, dense_text=text, keyword_text=text, terms=frozenset(content_words(text)), now=NOW,
        text_hash=text_hash(text), session_id=session, node_id=node,
    )  # fmt: skip
    scope = Scope(tenant=fields.pop("tenant", "acme"), **fields)
    return SearchRequest(question=question, scope=scope, limit=limit, window_minutes=minutes)


@asynccontextmanager
async def timeline(dsn: str, table: TimelineTable = OWN) -> AsyncGenerator[TimelineSource]:
    source = TimelineSource(dsn, table)
    try:
        yield source
    finally:
        await source.close()


async def ids(dsn: str, request: SearchRequest, table: TimelineTable = OWN) -> list[str]:
    return [hit.read().id for hit in await hits(dsn, request, table) if hit.read is not None]


async def hits(dsn: str, request: SearchRequest, table: TimelineTable = OWN) -> Sequence[Hit]:
    async with timeline(dsn, table) as source:
        return await source.search(request)


async def run(dsn: str, *statements: str) -> None:
    connection = await open_connection(dsn, name="test", statement_timeout_ms=5000, for_external_tables=True)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def memories(found: Sequence[Hit]) -> list[MemoryView]:
    """What the hits say, in their order."""
    return [hit.read() for hit in found if hit.read is not None]
