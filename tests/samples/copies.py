"""Index and graph in a folder, written to and asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.types import Sources
from orion_recall.sources.graph import RdfSource, entities_like
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.values import Memory, SuccessionLink
from tests.samples.source_samples import HashingEmbedder, changes


class Copies:
    """An index and a graph, and the sources over them."""

    def __init__(self, folder: Path, sparse: SparseEncoder, tokens: TokenCounter) -> None:
        self.index, self.graph = EdgeIndex(folder / "index", HashingEmbedder(), sparse), RdfGraph(folder / "graph")
        likeness = partial(entities_like, self.index, HashingEmbedder())
        self.sources = Sources(
            by_name={
                "vector": VectorSource(self.index, HashingEmbedder()),
                "lexical": LexicalSource(self.index, sparse),
                "rdf": RdfSource(self.graph, self.index, likeness),
            },
            tokens=tokens,
            readers=(self.index, self.graph),
            lexicon=self.index,
            titles=self.index,
            chronological=self.index,
        )
        self._position = 0

    async def store(self, *memories: Memory, succeeded_by: tuple[SuccessionLink, ...] = ()) -> None:
        made = [
            replace(change, succeeded_by=succeeded_by) for change in changes(*memories, start=self._position + 1)
        ]
        await self.index.apply(made)
        await self.graph.apply(made)
        self._position += len(made)


@asynccontextmanager
async def opened_copies(folder: Path, sparse: SparseEncoder, tokens: TokenCounter) -> AsyncGenerator[Copies]:
    """Empty copies, open."""
    one = Copies(folder, sparse, tokens)
    await one.index.open()
    await one.graph.open()
    yield one
    await one.graph.close()
    await one.index.close()
