"""Scaling: stores filled with synthetic turns, size by size, and what each system takes there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.plan import Progress
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.evaluation.systems.latency import Latency, recall_latency, search_latency, write_latency
from orion_recall.evaluation.systems.registry import SYSTEMS, ConversationRankSource, Corpus
from orion_recall.evaluation.systems.turns import NOW, TENANT, new_questions, synthetic_turns
from orion_recall.evaluation.systems.word_vectors import WordVectors
from orion_recall.evaluation.trials import Asking
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.text_forms import keyword_form
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.profile import Profile
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings
from orion_recall.values import Memory

_NEW_TURNS = 30
_WEIGHT_BYTES, _NUMBER_BYTES = 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSize:
    """What was measured with so many turns.

    `searches` by system and `recalls` by profile; `memory_operation` is the storing of one turn. `bytes_held` is
    what a system keeps to search: texts; 8 bytes a term and turn; 4 a number of a vector; the graph's arrays.
    `disk_bytes` is index and graph of orion-recall together. `built_ms` is what the PageRank graph took to build.
    """

    turns: int
    searches: Mapping[str, Latency]
    recalls: Mapping[str, Latency]
    memory_operation: Latency
    bytes_held: Mapping[str, int]
    disk_bytes: int
    built_ms: float


async def measure_at(
    size: int,
    memories: Sequence[Memory],
    queries: Sequence[JudgedQuery],
    profiles: Sequence[Profile],
    settings: Settings,
    progress: Progress,
    *,
    calls: int,
) -> AtSize:
    """Fills stores with so many turns, and measures every system and profile over them.

    EvaluationError when the embedder gives no vectors of tokens: without them 100,000 turns take hours to embed.
    """
    embedders: list[WordVectors] = []

    def around(embedder: Embedder) -> Embedder:
        if not isinstance(embedder, TokenVectors):
            raise EvaluationError("scaling needs ORION_EMBEDDER=onnx: no other embedder gives vectors of words")
        embedders.append(WordVectors(embedder))
        return embedders[0]

    with tempfile.TemporaryDirectory(prefix="orion-scaling-") as folder:
        private = private_settings(settings, Path(folder) / "data")
        async with open_sources(private, around=around) as opened:
            progress.begins(f"{size:,} turns", size)
            turns = synthetic_turns(memories, size, advanced=progress.advanced)
            progress.begins(f"{size:,} turns: index and graph", size)
            projections = index_and_graph(opened)
            await fill(projections, changes(turns), progress.advanced)
            if isinstance(opened.index, EdgeIndex):
                await opened.index.optimise()
            corpus = Corpus.of(turns, opened)
            progress.begins(f"{size:,} turns: searches", len(SYSTEMS) + len(profiles))
            searches: dict[str, Latency] = {}
            bytes_held = _bytes_held(turns, opened.embedder.dimension)
            built_ms = 0.0
            for done, system in enumerate(SYSTEMS, 1):
                began = time.perf_counter()
                source = system.make(corpus)
                if isinstance(source, ConversationRankSource):
                    built_ms = round((time.perf_counter() - began) * 1000, 1)
                    bytes_held[system.name] = _graph_bytes(source)
                asked = new_questions(queries, memories, calls, what=system.name)
                searches[system.name] = await search_latency(system, source, corpus, asked)
                progress.advanced(done)
            asking = Asking(sources=opened.sources, newest={TENANT: NOW})
            recalls: dict[str, Latency] = {}
            for done, profile in enumerate(profiles, len(SYSTEMS) + 1):
                asked = new_questions(queries, memories, calls, what=profile.profile)
                recalls[profile.profile] = await recall_latency(profile, asking, asked)
                progress.advanced(done)
            for embedder in embedders:
                embedder.is_exact = True
            new = changes(synthetic_turns(memories, _NEW_TURNS, first=size))
            steps = [replace(step, position=size + place) for place, step in enumerate(new, 1)]
            stored = await write_latency(projections, steps)
        return AtSize(
            turns=size,
            searches=searches,
            recalls=recalls,
            memory_operation=stored,
            bytes_held=bytes_held,
            disk_bytes=_on_disk(private.data_dir),
            built_ms=built_ms,
        )


def _bytes_held(turns: Sequence[Memory], dimension: int) -> dict[str, int]:
    sparse = SparseEncoder()
    return {
        "like": sum(len(turn.text.encode()) for turn in turns),
        "bm25_decay": _WEIGHT_BYTES
        * sum(len(sparse.encode_document(keyword_form(turn)).indices) for turn in turns),
        "dense": _NUMBER_BYTES * dimension * len(turns),
    }


def _graph_bytes(source: ConversationRankSource) -> int:
    """The arrays of the edges, and the turns of each keyword."""
    return sum(
        sum(array.nbytes for array in (graph.edges.source, graph.edges.target, graph.edges.weight))
        + _WEIGHT_BYTES * sum(len(places) for places in graph.postings.values())
        for graph in source.graphs.values()
    )


def _on_disk(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
