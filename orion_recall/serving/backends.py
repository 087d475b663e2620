"""Backends: opens models, index, graph, timeline and external stores as the settings say.

With an address a backend is a server, without one the embedded engine in the data folder. A backend that cannot be
used is reported, and recalls go on without its hits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from orion_recall.engines.disk_space import DiskSpace, copy_space
from orion_recall.errors import AnotherRecordsCopy, RecordError, SourceError, TransientSourceError
from orion_recall.external.mappings import load_mappings
from orion_recall.external.opening import open_mapped
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.reader import sparql_server
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.interfaces import MemoryGraph, MemoryIndex, Projection, Source, Unavailable
from orion_recall.memory.record.record import database_identity_at
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder, open_reranker
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.types import FallbackSource, Sources
from orion_recall.settings import Settings
from orion_recall.sources.further import open_further
from orion_recall.sources.graph import RdfSource, entities_like, statement_weights
from orion_recall.sources.record import RecordFacts, RecordSearch
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.sources.timeline import TimelineSource, TimelineTable
from orion_recall.sources.vector_lexical import (
    LexicalSource,
    TextVectors,
    VectorSource,
    closeness,
    nearest_passages,
)
from orion_recall.tasks import in_time
from orion_recall.text.redaction import Redaction
from orion_recall.values import SourceName

log = logging.getLogger("orion_recall.service")


P = TypeVar("P", bound=Projection)

_MARK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The open backends. `index` or `graph` is None when it is broken; its sources raise the reason.

    A copy of another record is in `broken` too; it answers once that is repaired, without a restart.
    `tenants_of_others` has the tenant of each external store that belongs to one.
    """

    sources: Sources
    embedder: Embedder
    index: MemoryIndex | None
    graph: MemoryGraph | None
    broken: Mapping[str, str] = field(default_factory=dict[str, str])
    tenants_of_others: Mapping[str, str] = field(default_factory=dict[str, str])


@contextlib.asynccontextmanager
async def open_sources(
    settings: Settings,
    *,
    around: Callable[[Embedder], Embedder] | None = None,
    sparse: SparseEncoder | None = None,
    with_packages: bool = True,
) -> AsyncGenerator[Opened]:
    """Open the backends. One that another process holds is an EngineError; a broken one is reported in `broken`.

    `around` wraps the embedder, as with a cache; `sparse` replaces the keyword weights of the settings; without
    `with_packages` the sources of other packages stay closed.
    """
    async with contextlib.AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(open_embedder(settings))
        embedder = around(embedder) if around is not None else embedder
        reranker = await stack.enter_async_context(open_reranker(settings))
        sparse, tokens = sparse or SparseEncoder(settings.keyword_weights), await asyncio.to_thread(TokenCounter)
        broken: dict[str, str] = {}
        mark = await identity_of(settings)
        index = await _usable(index_of(settings, embedder, sparse), mark, broken, stack)
        graph = await _usable(graph_of(settings), mark, broken, stack)
        external_stores = load_mappings(settings.mappings)
        by_tokens = embedder if isinstance(embedder, TokenVectors) else None
        likeness = partial(entities_like, index, embedder) if index else None
        no_index, no_graph = broken.get("index", ""), broken.get("graph", "")
        stores: dict[SourceName, dict[str, Source]] = {
            "vector": {"": VectorSource(index, embedder) if index else Unavailable("vector", no_index)},
            "lexical": {"": LexicalSource(index, sparse) if index else Unavailable("lexical", no_index)},
            "rdf": {"": RdfSource(graph, index, likeness) if graph else Unavailable("rdf", no_graph)},
            "sql_timeline": {},
        }
        fallback: FallbackSource | None = None
        facts: RecordFacts | None = None
        has_external = False
        if settings.dsn is not None:
            table = timeline_table(settings)
            has_external = table.is_of_others
            timeline, record = TimelineSource(settings.dsn, table), RecordSearch(settings.dsn)
            stores["sql_timeline"][""] = timeline
            fallback, facts = FallbackSource(source=record), RecordFacts(settings.dsn)
            for one in (timeline, record, facts):
                stack.push_async_callback(one.close)
        for source_name, store, source in await open_mapped(external_stores, settings, embedder, sparse, stack):
            stores[source_name][store] = source
            has_external = True
        further: Mapping[SourceName, Source] = {}
        if with_packages:
            further = await open_further(settings, stack)
        # Several stores of one source are searched together; our own has the name "".
        by_name: dict[SourceName, Source] = {
            name: of[""] if list(of) == [""] else SeveralStores(name, of) for name, of in stores.items() if of
        } | dict(further)
        yield Opened(
            sources=Sources(
                by_name=by_name,
                tokens=tokens,
                readers=tuple(part for part in (index, graph) if part is not None),
                lexicon=index,
                titles=index,
                chronological=index,
                reranker=reranker,
                late_interaction=partial(closeness, index, by_tokens) if index is not None else None,
                passages=partial(nearest_passages, index, embedder) if index is not None else None,
                texts=TextVectors(embedder),
                has_external=has_external,
                fallback=fallback,
                record_facts=facts,
                redaction=Redaction.at("render", settings.redact),
                evidence=partial(statement_weights, graph) if graph is not None else None,
            ),
            embedder=embedder,
            index=index,
            graph=graph,
            broken=broken,
            tenants_of_others=external_stores.tenants,
        )


def index_of(settings: Settings, embedder: Embedder, sparse: SparseEncoder) -> MemoryIndex:
    if settings.qdrant_url is not None:
        server = QdrantServer.at(settings.qdrant_url, api_key=settings.qdrant_key)
        has_record = settings.dsn is not None
        return QdrantIndex(server, settings.qdrant_collection, embedder, sparse, has_record=has_record)
    return EdgeIndex(settings.data_dir / "index", embedder, sparse, room=room_of("index", settings))


def room_of(kind: str, settings: Settings) -> DiskSpace:
    """The disk of an embedded copy of that kind."""
    return copy_space(kind, settings.data_dir / kind, settings.min_free_bytes)


def embedded_copies(settings: Settings) -> list[str]:
    """The kinds of copies that lie in the data folder: index, graph."""
    is_embedded = {"index": settings.qdrant_url is None, "graph": sparql_server(settings) is None}
    return [kind for kind, is_ours in is_embedded.items() if is_ours]


def own_copy(settings: Settings) -> str:
    """The registered name of copies in this node's data folder."""
    return f"{settings.node}:{settings.data_dir.resolve()}"


async def identity_of(settings: Settings) -> str | None:
    """The mark of the record; None while Postgres is away or empty: who keeps the copies tells them later."""
    if settings.dsn is None:
        return None
    try:
        return await in_time(database_identity_at(settings.dsn), _MARK_S)
    except (RecordError, TimeoutError) as error:
        log.info("the database identity will be read later: %s", error or "Postgres did not answer in time")
        return None


def graph_of(settings: Settings) -> MemoryGraph:
    """The graph of the settings, not opened."""
    server = sparql_server(settings)
    if server is None:
        return RdfGraph(settings.data_dir / "graph", room=room_of("graph", settings))
    return SparqlGraph(SparqlClient(server), has_record=settings.dsn is not None)


async def _usable(part: P, mark: str | None, broken: dict[str, str], stack: contextlib.AsyncExitStack) -> P | None:
    if mark is not None:
        part.expect(mark)
    try:
        await part.open()
    except TransientSourceError as error:
        log.warning("the %s cannot be reached yet: %s", part.kind, error)
    except SourceError as error:
        broken[part.kind], is_anothers = str(error), isinstance(error, AnotherRecordsCopy)
        log.error("the %s %s: %s", part.kind, "is refused" if is_anothers else "cannot be used", error)  # noqa: TRY400
        if not is_anothers:
            await part.close()
            return None
    stack.push_async_callback(part.close)
    return part


def timeline_table(settings: Settings) -> TimelineTable:
    return TimelineTable.mapped(settings.timeline_table, settings.timeline_columns, settings.timeline_tenant)
