"""Sources without caches between recalls, each with a clock around it.

A worker caches the vectors of questions and the rows of graph queries. The bench recalls the same question many
times, and each time should cost as much as the first. Within one recall the caches work as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orion_recall.evaluation.word_vectors import TokenEmbedder
from orion_recall.graph.vocabulary import Row
from orion_recall.interfaces import OwnGraph, Source
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import Opened
from orion_recall.sources.graph import RdfSource
from orion_recall.values import Hit, SearchRequest, SourceName
from tests.bench.cpu_clock import EMBEDDING, GRAPH, KEYWORDS, TIMELINE, VECTOR, Clock

_STAGES: dict[SourceName, str] = {
    "vector": VECTOR,
    "lexical": KEYWORDS,
    "rdf": GRAPH,
    "sql_timeline": TIMELINE,
}


class Recalls:
    """The number of the current recall, which is part of every cache key."""

    def __init__(self) -> None:
        self.number = 0

    def begin(self) -> None:
        """Begins the next recall."""
        self.number += 1


class UncachedEmbedder:
    """An embedder whose cache misses in every new recall: trailing spaces make the text another one."""

    def __init__(self, embedder: TokenEmbedder, recalls: Recalls, clock: Clock) -> None:
        self._embedder, self._recalls, self._clock = embedder, recalls, clock
        self.name, self.dimension = embedder.name, embedder.dimension
        self.weights_sha256 = embedder.weights_sha256
        self.token_space, self.token_width = embedder.token_space, embedder.token_width

    async def embed_query(self, text: str) -> Vector:
        """As `Embedder` says."""
        with self._clock.stage(EMBEDDING):
            return await self._embedder.embed_query(self._anew(text))

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder` says."""
        return await self._embedder.embed_documents(texts)

    async def query_tokens(self, text: str) -> Tokens:
        """As `TokenVectors` says."""
        return await self._embedder.query_tokens(self._anew(text))

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As `TokenVectors` says."""
        return await self._embedder.documents_with_tokens(texts)

    def _anew(self, text: str) -> str:
        return text + " " * (self._recalls.number % 1000)


class _UncachedGraph:
    """A graph whose row cache misses in every new recall: the query gets a comment."""

    kind = "graph"
    damage: str | None = None
    stalled: str | None = None

    def __init__(self, graph: OwnGraph, recalls: Recalls) -> None:
        self._graph, self._recalls = graph, recalls

    async def select(self, query: str) -> Sequence[Row]:
        return await self._graph.select(f"{query}\n# {self._recalls.number}")

    async def check(self) -> None:
        await self._graph.check()


class _ClockedSource:
    """A source measured as a stage, alone."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self.name: SourceName = source.name
        self._source, self._clock = source, clock

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        async with self._clock.alone(_STAGES[self.name]):
            return await self._source.search(request)


def uncached_sources(opened: Opened, recalls: Recalls) -> Sources:
    """The opened sources with an uncached graph."""
    assert opened.graph is not None, opened.broken
    rdf: Source = RdfSource(_UncachedGraph(opened.graph, recalls), opened.index)
    return replace(opened.sources, by_name={**opened.sources.by_name, "rdf": rdf})


def clocked_sources(sources: Sources, clock: Clock) -> Sources:
    """The sources, each measured as a stage of the clock."""
    return replace(
        sources, by_name={name: _ClockedSource(source, clock) for name, source in sources.by_name.items()}
    )
