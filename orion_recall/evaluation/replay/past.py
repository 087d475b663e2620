"""The record, index, graph and timeline as they were at a moment.

In a session of Postgres temporary tables stand in front of those of the record: `memories`, `outbox`,
`entity_merges` and the rest hold what they held then, so that the SQL of the record, of the timeline and of the
copies runs over it as it is. Nothing but temporary tables is written, and they go with the session. The moment only
moves forward. Index and graph are private copies that follow that record.

What is not in the history cannot be put back: what was erased, how often a memory was used, and what a background
extraction has found since.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString

from orion_recall.decisions.log import with_advice
from orion_recall.errors import QueryNotTaken, RecordError, SettingsError, SourceError
from orion_recall.evaluation.trials import Progress, index_and_graph, private_settings
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache
from orion_recall.interfaces import Projection, Source
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.aliases import as_changes
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.address import quote_identifier, read_address
from orion_recall.postgres.pool import Connection, Row, close_connection, is_refusal, open_connection, translate
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import open_sources, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.record import RecordFacts
from orion_recall.sources.timeline import TimelineSource
from orion_recall.text.normal import memory_key
from orion_recall.text.redaction import Redaction
from orion_recall.values import Change, SourceName

_TIMEOUT_MS = 600_000
_RIGHTS = (
    "a replay needs the rights of orion_worker, and that to temporary tables: run deploy/postgres/roles.sql again, "
    "or GRANT TEMPORARY ON DATABASE … TO the login in ORION_POSTGRES_DSN"
)
_DOING = "reading the record as it was"

# In a session's search path temporary tables come first. `{old}` is the schema of the record.
_TABLES: LiteralString = """
CREATE TEMP TABLE memories (LIKE {old}.memories INCLUDING ALL);
CREATE TEMP TABLE outbox (position bigint PRIMARY KEY, tenant text NOT NULL, memory_id text NOT NULL);
CREATE TEMP TABLE moved (tenant text, memory_id text, PRIMARY KEY (tenant, memory_id));
CREATE TEMP VIEW collapse_mirror AS
    SELECT tenant, id, ts, text, title, session_id, node_id, user_id, kind, speaker, uri, tags, search, agent_id,
        run_id
    FROM pg_temp.memories WHERE live;
CREATE TEMP VIEW entity_merges AS
    SELECT id, tenant, kind, alias, alias_label, merged_into, canonical, canonical_folded, at,
        NULL::timestamptz AS undone_at
    FROM {old}.entity_merges WHERE at <= {now} AND (undone_at IS NULL OR undone_at > {now});
CREATE TEMP VIEW memory_successions AS
    SELECT tenant, newer, older, probability, state, reason, evidence FROM {old}.memory_successions
    WHERE coalesce(changed_at, at) <= {now}
    UNION ALL
    SELECT tenant, newer, older, probability, state, reason, evidence FROM {old}.memory_succession_history
    WHERE since <= {now} AND until > {now};
""".replace("{now}", "current_setting('orion_replay.moment')::timestamptz")

# Step and outbox entry of one change are written in one transaction, so their times are equal. Until the first step
# after the position the memory was what that step says it was before; without such a step it is as it was.
_AS_OF: LiteralString = """
WITH later AS (
    SELECT DISTINCT ON (h.tenant, h.memory_id) h.tenant, h.memory_id, h.before
    FROM {old}.outbox o
    JOIN {old}.memory_history h ON h.tenant = o.tenant AND h.memory_id = o.memory_id AND h.at = o.recorded_at
    WHERE o.position > $1 AND {wanted}
    ORDER BY h.tenant, h.memory_id, h.id
)
INSERT INTO pg_temp.memories ({columns})
SELECT {columns} FROM {old}.memories o
WHERE {wanted_now} AND NOT EXISTS (SELECT FROM later l WHERE l.tenant = o.tenant AND l.memory_id = o.id)
UNION ALL
SELECT {columns} FROM (
    SELECT (jsonb_populate_record(NULL::{old}.memories, l.before)).* FROM later l
    WHERE l.before IS NOT NULL AND NOT l.before ? 'erased'
) AS before
"""
_OF_TENANTS: LiteralString = "o.tenant = ANY($2::text[])"
_MOVED: LiteralString = """
INSERT INTO pg_temp.moved
SELECT DISTINCT tenant, memory_id FROM {old}.outbox WHERE position > $1 AND position <= $2 AND tenant = ANY($3)
"""
_QUEUE: LiteralString = """
INSERT INTO pg_temp.outbox
SELECT max(o.position), o.tenant, o.memory_id
FROM {old}.outbox o JOIN pg_temp.memories m ON m.tenant = o.tenant AND m.id = o.memory_id
WHERE o.position > $1 AND o.position <= $2 AND o.tenant = ANY($3) GROUP BY o.tenant, o.memory_id
"""
# What came first after the time, found from a position before it: positions become visible in order.
_HEAD_AT: LiteralString = """
SELECT coalesce(
    (SELECT position - 1 FROM {old}.outbox WHERE position > $1 AND recorded_at > $2 ORDER BY position LIMIT 1),
    (SELECT max(position) FROM {old}.outbox), 0)
"""
# Of changes that a copy lacks: workers hide these memories, wherever they find them.
_CHANGED: LiteralString = """
SELECT DISTINCT o.tenant, o.memory_id FROM {old}.outbox o
JOIN {old}.memory_history h ON h.tenant = o.tenant AND h.memory_id = o.memory_id AND h.at = o.recorded_at
WHERE o.position > $1 AND o.position <= $2 AND o.tenant = ANY($3) AND h.op NOT IN ('add', 'merge')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of the record: the last position of the outbox, and the time."""

    position: int
    at: datetime


class PastRecord:
    """The record of some tenants at a moment. Every method raises RecordError while Postgres is away."""

    def __init__(self, connection: Connection, schema: str, tenants: Sequence[str]) -> None:
        self._connection, self._tenants = connection, list(tenants)
        self._schema = quote_identifier(schema)
        self._one_at_a_time = asyncio.Lock()
        self._moment: Moment | None = None
        self._columns = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str, tenants: Sequence[str]) -> AsyncGenerator[PastRecord]:
        """A session with empty tables; `move` fills them. The login needs the right to temporary tables."""
        if (address := read_address(dsn)).cache_size == 0:
            raise SettingsError(
                "a replay keeps temporary tables in a session of its own: name Postgres itself, and no pooler "
                "(statement_cache_size=0 in ORION_POSTGRES_DSN)"
            )
        connection = await open_connection(dsn, name="replay", statement_timeout_ms=_TIMEOUT_MS)
        try:
            opened = cls(connection, address.schema, tenants)
            try:
                await opened._prepare()
            except RecordError as error:
                raise with_advice(error, _RIGHTS) from error
            yield opened
        finally:
            await close_connection(connection)

    @property
    def position(self) -> int:
        """The position of the present moment; 0 before the first."""
        return 0 if self._moment is None else self._moment.position

    async def move(self, to: Moment) -> None:
        """The tables as of the moment; one before the present one is the present one."""
        if self._moment is not None and to.position < self._moment.position:
            return
        async with self._session():
            await self._set_time(to.at)
            if self._moment is None:
                await self._connection.execute(self._as_of(_OF_TENANTS, _OF_TENANTS), to.position, self._tenants)
                await self._connection.execute("ANALYZE pg_temp.memories")
            elif to.position > self._moment.position:
                await self._catch_up(self._moment.position, to.position)
        self._moment = to

    async def head_at(self, moment: datetime, *, after: int = 0) -> int:
        """The last position of the outbox at that time, which is not before `after`."""
        (row,) = await self.fetch(self.of_record(_HEAD_AT), [after, moment])
        return int(row[0])

    async def moment(self, began: datetime, read_at: Mapping[str, int]) -> Moment:
        """The moment of a recall that began then, when the copies had applied these positions."""
        applied = max(read_at.values(), default=self.position)
        head = await self.head_at(began, after=applied)
        return Moment(position=max(head, applied), at=began)

    async def changes(self, after: int, to: int) -> AsyncGenerator[list[Change]]:
        """What a copy at the position `after` is told up to `to`, in pages, as the record is at this moment."""
        async with self._session() as connection:
            await connection.execute("TRUNCATE pg_temp.outbox")
            await connection.execute(self.of_record(_QUEUE), after, to, self._tenants)
        while True:
            async with self._session() as connection:
                page = await as_changes(connection, await connection.fetch(record_sql.CHANGES, after, 200))
            if not page:
                return
            yield page
            after = page[-1].position

    async def changed(self, after: int, to: int) -> list[tuple[str, str]]:
        """Tenant and id of the memories that were changed or taken out between two positions."""
        rows = await self.fetch(self.of_record(_CHANGED), [after, to, self._tenants])
        return [(row["tenant"], row["memory_id"]) for row in rows]

    async def fetch(self, statement: str, values: Sequence[object]) -> list[Row]:
        async with self._session() as connection:
            return await connection.fetch(statement, *values)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncGenerator[Connection]:
        """The session, for one at a time."""
        async with self._one_at_a_time:
            with translate(_DOING):
                yield self._connection

    async def _prepare(self) -> None:
        async with self._session() as connection:
            await connection.execute("SET max_parallel_workers_per_gather = 0; SET jit = off")
            await self._set_time(datetime.fromisoformat("1970-01-01T00:00:00+00:00"))
            await connection.execute(self.of_record(_TABLES))
            columns: list[Any] = await connection.fetch(
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 "
                "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                f"{self._schema}.memories",
            )
            self._columns = ", ".join(f'"{row["attname"]}"' for row in columns)

    async def _set_time(self, moment: datetime) -> None:
        await self._connection.execute("SELECT set_config('orion_replay.moment', $1, false)", moment.isoformat())

    async def _catch_up(self, before: int, to: int) -> None:
        await self._connection.execute("TRUNCATE pg_temp.moved")
        await self._connection.execute(self.of_record(_MOVED), before, to, self._tenants)
        await self._connection.execute(
            "DELETE FROM pg_temp.memories m USING pg_temp.moved v WHERE v.tenant = m.tenant AND v.memory_id = m.id"
        )
        of_moved = "EXISTS (SELECT FROM pg_temp.moved v WHERE v.tenant = o.tenant AND v.memory_id = o.{id})"
        step = self._as_of(of_moved.replace("{id}", "memory_id"), of_moved.replace("{id}", "id"))
        await self._connection.execute(step, to)

    def of_record(self, statement: str) -> str:
        """The statement with the schema of the record itself for `{old}`."""
        return statement.replace("{old}", self._schema)

    def _as_of(self, wanted: str, wanted_now: str) -> str:
        told = _AS_OF.replace("{wanted_now}", wanted_now).replace("{wanted}", wanted)
        return self.of_record(told.replace("{columns}", self._columns))


class PastTimeline(TimelineSource):
    """The timeline over the record as it was."""

    def __init__(self, dsn: str, settings: Settings, past: PastRecord, schema: str) -> None:
        super().__init__(dsn, timeline_table(settings))
        self._past, self._own_schema = past, schema

    async def _fetch(self, statement: str, values: Sequence[object]) -> Sequence[Row]:
        return await _fetched(self._past, statement, values)


class PastFacts(RecordFacts):
    """The record's facts as they were; how often memories were used is not in the history, so that is as now."""

    def __init__(self, dsn: str, past: PastRecord) -> None:
        super().__init__(dsn)
        self._past = past

    async def _fetch(self, doing: str, statement: str, tenant: str, ids: Sequence[str]) -> Sequence[Row]:
        return await _fetched(self._past, statement, [tenant, list(ids)]) if ids else []


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStores:
    """The stores of a replay. `move` takes them to a moment; `sources` are searched there."""

    sources: Sources
    embedder: Embedder
    past: PastRecord
    copies: Mapping[str, Projection]

    async def move(self, to: Moment, read_at: Mapping[str, int] | None, progress: Progress | None = None) -> None:
        """The record at the moment, and each copy at the position that it had applied then (None: that of `to`).

        A copy that is further stays so. What the copies lack of the record is hidden, as a worker hides it.
        """
        await self.past.move(to)
        for kind, copy in self.copies.items():
            wanted = min((read_at or {}).get(kind, to.position), to.position)
            if wanted <= copy.position:
                continue
            began = copy.position
            if progress is not None:
                progress.begins(f"memories into the {kind}", wanted - began)
            async with contextlib.aclosing(self.past.changes(began, wanted)) as pages:
                async for page in pages:
                    await copy.apply(page)
                    if progress is not None:
                        progress.advanced(page[-1].position - began)
        applied = min(copy.position for copy in self.copies.values())
        if applied < to.position:
            for tenant, name in await self.past.changed(applied, to.position):
                self.sources.tombstones.add({memory_key(tenant, name): to.position})


@contextlib.asynccontextmanager
async def past_stores(
    settings: Settings, dsn: str, folder: Path, tenants: Sequence[str], cache: VectorCache | None
) -> AsyncGenerator[PastStores]:
    """Empty stores in the folder, with the models of the settings, until the end of the block.

    Stores of others and sources of other packages are not asked, but for a timeline table of another service.
    SourceError: the stores cannot be opened.
    """
    private = private_settings(settings, folder).changed(postgres_dsn=None)

    def around(embedder: Embedder) -> Embedder:
        return embedder if cache is None else CachedEmbedder(embedder, cache)

    async with contextlib.AsyncExitStack() as stack:
        past = await stack.enter_async_context(PastRecord.open(dsn, tenants))
        stack.enter_context(cache or contextlib.nullcontext())
        sparse = SparseEncoder(settings.keyword_weights)
        opening = open_sources(private, around=around, sparse=sparse, with_packages=False)
        opened = await stack.enter_async_context(opening)
        copies: dict[str, Projection] = dict(zip(("index", "graph"), index_and_graph(opened), strict=True))
        timeline, is_of_others = await _timeline(settings, dsn, past), timeline_table(settings).is_of_others
        stack.push_async_callback(timeline.close)
        by_name: dict[SourceName, Source] = {**opened.sources.by_name, "sql_timeline": timeline}
        sources = replace(
            opened.sources,
            by_name=by_name,
            has_external=is_of_others,
            record_facts=PastFacts(dsn, past),
            redaction=Redaction.at("render", settings.redact),
            tombstones=Tombstones(copies.values()),
        )
        yield PastStores(sources=sources, embedder=opened.embedder, past=past, copies=copies)


async def _timeline(settings: Settings, dsn: str, past: PastRecord) -> TimelineSource:
    table = timeline_table(settings)
    if table.is_of_others:
        return TimelineSource(dsn, table)
    (row,) = await past.fetch("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()", [])
    return PastTimeline(dsn, settings, past, row["nspname"])


async def _fetched(past: PastRecord, statement: str, values: Sequence[object]) -> Sequence[Row]:
    try:
        return await past.fetch(statement, values)
    except RecordError as error:
        is_of_query = error.__cause__ is not None and is_refusal(error.__cause__)
        raise (QueryNotTaken if is_of_query else SourceError)(str(error)) from error
