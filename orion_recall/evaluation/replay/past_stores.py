"""Index, graph and timeline as they were at a moment: private copies that follow the record as it was."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orion_recall.errors import QueryNotTaken, RecordError, SourceError
from orion_recall.evaluation.plan import Progress
from orion_recall.evaluation.replay.past_record import Moment, PastRecord
from orion_recall.evaluation.run_stores import index_and_graph, private_settings, vectors_open
from orion_recall.evaluation.vectors import VectorCache, cached
from orion_recall.interfaces import Projection, Source
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Row, is_refusal
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import open_sources, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.record import RecordFacts
from orion_recall.sources.timeline import TimelineSource
from orion_recall.text.normal import memory_key
from orion_recall.text.redaction import Redaction
from orion_recall.values import SourceName

_KINDS = ("index", "graph")


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
            done = 0
            if progress is not None:
                progress.begins(f"memories into the {kind}", wanted - copy.position)
            async with contextlib.aclosing(self.past.changes(copy.position, wanted)) as pages:
                began = copy.position
                async for page in pages:
                    await copy.apply(page)
                    done = page[-1].position - began
                    if progress is not None:
                        progress.advanced(done)
        await self._hide(to)

    async def _hide(self, to: Moment) -> None:
        tombstones = self.sources.tombstones
        applied = min(copy.position for copy in self.copies.values())
        if applied < to.position:
            for tenant, name in await self.past.changed(applied, to.position):
                tombstones.add({memory_key(tenant, name): to.position})


@contextlib.asynccontextmanager
async def past_stores(
    settings: Settings, dsn: str, folder: Path, tenants: Sequence[str], cache: VectorCache | None
) -> AsyncGenerator[PastStores]:
    """Empty stores in the folder, with the models of the settings, until the end of the block.

    Stores of others are not asked, but for a timeline table of another service. SourceError: they cannot be opened.
    """
    private = private_settings(settings, folder).changed(postgres_dsn=None)

    def around(embedder: Embedder) -> Embedder:
        return embedder if cache is None else cached(embedder, cache)

    async with contextlib.AsyncExitStack() as stack:
        past = await stack.enter_async_context(PastRecord.open(dsn, tenants))
        stack.enter_context(vectors_open(cache))
        sparse = SparseEncoder(settings.keyword_weights)
        opened = await stack.enter_async_context(open_sources(private, around=around, sparse=sparse))
        copies: dict[str, Projection] = dict(zip(_KINDS, index_and_graph(opened), strict=True))
        timeline, is_of_others = await _timeline(settings, dsn, past), timeline_table(settings).is_of_others
        stack.push_async_callback(timeline.close)
        by_name: dict[SourceName, Source] = {**opened.sources.by_name, "sql_timeline": timeline}
        tombstones = Tombstones()
        tombstones.applied_position = lambda: min(copy.position for copy in copies.values())
        tombstones.positions = lambda: {kind: copy.position for kind, copy in copies.items()}
        sources = replace(
            opened.sources,
            by_name=by_name,
            has_external=is_of_others,
            record_facts=PastFacts(dsn, past),
            redaction=Redaction.at("render", settings.redact),
            tombstones=tombstones,
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
