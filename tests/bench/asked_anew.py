"""Sources that answer nothing from what an earlier recall has left behind, with a clock around each arm.

A worker keeps the vectors of questions and the rows of the graph's queries. Here the same question is asked many
times, and every time it should cost what it costs the first time; within one recall it is embedded once, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orion_recall.graph.projection.lookups import Row
from orion_recall.interfaces import OwnGraph, Source
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import Opened
from orion_recall.sources.graph import RdfSource
from orion_recall.values import Hit, SearchRequest, SourceName
from tests.bench.clock import EMBEDDING, GRAPH, KEYWORDS, TIMELINE, VECTOR, Clock
from tests.bench.made_vectors import TokenEmbedder

_STAGES: dict[SourceName, str] = {
    "vector": VECTOR,
    "lexical": KEYWORDS,
    "rdf": GRAPH,
    "sql_timeline": TIMELINE,
}


class Recalls:
    """Which recall this is: what is kept is kept by it."""

    def __init__(self) -> None:
        self.number = 0

    def begin(self) -> None:
        """The next one."""
        self.number += 1


class EmbedderAnew:
    """The embedder, to which a question of another recall is another text: spaces behind it change nothing else."""

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


class _GraphAnew:
    """The graph, to which a query of another recall is another query, by a comment."""

    def __init__(self, graph: OwnGraph, recalls: Recalls) -> None:
        self._graph, self._recalls = graph, recalls

    async def select(self, query: str) -> Sequence[Row]:
        return await self._graph.select(f"{query}\n# {self._recalls.number}")

    async def check(self) -> None:
        await self._graph.check()


class _ClockedArm:
    """An arm as a stage, alone."""

    def __init__(self, arm: Source, clock: Clock) -> None:
        self.name: SourceName = arm.name
        self._arm, self._clock = arm, clock

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        async with self._clock.alone(_STAGES[self.name]):
            return await self._arm.search(request)


def sources_anew(opened: Opened, recalls: Recalls) -> Sources:
    """The opened sources with a graph that remembers no query."""
    assert opened.graph is not None, opened.broken
    rdf: Source = RdfSource(_GraphAnew(opened.graph, recalls), opened.index)
    return replace(opened.sources, by_name={**opened.sources.by_name, "rdf": rdf})


def clocked_arms(sources: Sources, clock: Clock) -> Sources:
    """The sources with every arm a stage of the clock."""
    return replace(sources, by_name={name: _ClockedArm(arm, clock) for name, arm in sources.by_name.items()})
