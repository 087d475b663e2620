"""The stores of one recall service, opened by the settings: where each of them is, nobody above asks.

An address means a server, none the embedded engine in the data folder. What cannot be used is reported and stood in
for, so that it costs a recall its own hits and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from orion_recall.errors import SourceError
from orion_recall.models.embedder import Embedder, OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Sources
from orion_recall.settings import Settings
from orion_recall.sources.edge import EdgeIndex
from orion_recall.sources.index import LexicalSource, VectorSource
from orion_recall.sources.rdf import RdfGraph, RdfSource
from orion_recall.sources.source import MemoryGraph, MemoryIndex, Projection, Source, Unavailable
from orion_recall.sources.timeline import TimelineSource, TimelineTable
from orion_recall.values import SourceName

log = logging.getLogger("orion_recall.service")
P = TypeVar("P", bound=Projection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What was opened for recalls. `index` or `graph` is None when it is broken; its arms say why."""

    sources: Sources
    embedder: Embedder
    index: MemoryIndex | None
    graph: MemoryGraph | None
    broken: Mapping[str, str] = field(default_factory=dict[str, str])


@contextlib.asynccontextmanager
async def open_sources(
    settings: Settings, *, around: Callable[[Embedder], Embedder] | None = None
) -> AsyncGenerator[Opened]:
    """The model loaded and warm, index and graph open, the timeline where Postgres is configured.

    A broken index or graph is reported and stood in for; one that another process holds is an EngineError. `around`
    is given the embedder and gives the one to use, such as one that keeps what it has embedded.
    """
    async with contextlib.AsyncExitStack() as stack:
        embedder = await _embedder(settings, stack)
        embedder = around(embedder) if around is not None else embedder
        sparse, tokens = SparseEncoder(), await asyncio.to_thread(TokenCounter)
        broken: dict[str, str] = {}
        index = await _usable(_index(settings, embedder, sparse), broken, stack)
        graph = await _usable(_graph(settings), broken, stack)
        arms: dict[SourceName, Source] = {
            "vector": VectorSource(index, embedder) if index else Unavailable("vector", broken["index"]),
            "lexical": LexicalSource(index, sparse) if index else Unavailable("lexical", broken["index"]),
            "rdf": RdfSource(graph, index) if graph else Unavailable("rdf", broken["graph"]),
        }
        if settings.dsn is not None:
            timeline = TimelineSource(settings.dsn, _timeline_table(settings))
            stack.push_async_callback(timeline.close)
            arms["sql_timeline"] = timeline
        readers = tuple(part for part in (index, graph) if part is not None)
        yield Opened(
            sources=Sources(arms=arms, tokens=tokens, readers=readers, lexicon=index),
            embedder=embedder,
            index=index,
            graph=graph,
            broken=broken,
        )


async def _embedder(settings: Settings, stack: contextlib.AsyncExitStack) -> Embedder:
    embedder = OnnxEmbedder(path=settings.model_path)
    stack.push_async_callback(embedder.close)
    await embedder.load()
    return embedder


def _index(settings: Settings, embedder: Embedder, sparse: SparseEncoder) -> MemoryIndex:
    return EdgeIndex(settings.data_dir / "index", embedder, sparse)


def _graph(settings: Settings) -> MemoryGraph:
    return RdfGraph(settings.data_dir / "graph")


async def _usable(part: P, broken: dict[str, str], stack: contextlib.AsyncExitStack) -> P | None:
    """The part, open until the stack ends; None when it cannot be used, with the reason in `broken`."""
    try:
        await part.open()
    except SourceError as error:
        broken[part.kind] = str(error)
        log.error("the %s cannot be used: %s", part.kind, error)  # noqa: TRY400 (the text says it all)
        return None
    stack.push_async_callback(part.close)
    return part


def _timeline_table(settings: Settings) -> TimelineTable:
    return TimelineTable.mapped(settings.timeline_table, settings.timeline_columns, settings.timeline_tenant)
