"""The stores of a run: embedded, in a folder of their own, filled with the memories of its file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.plan import Contents, Plan, Progress, RunSummary, timed
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache, cached
from orion_recall.interfaces import Projection
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings

# Prefixes of the settings that a run keeps: models, profiles and the timeline. Addresses of other stores must not
# be among them: the memories of the evaluation would be written there.
_KEPT_SETTINGS = tuple(
    "model embedder embedding_precision token_vectors tei keyword_weights reranker timeline postgres profiles node "
    "log".split()
)


def private_settings(settings: Settings, data_dir: Path) -> Settings:
    """The settings of a run: defaults, but for those that a run keeps."""
    untouched = {
        name: option.get_default(call_default_factory=True)
        for name, option in Settings.model_fields.items()
        if not name.startswith(_KEPT_SETTINGS)
    }
    return settings.changed(**untouched | {"data_dir": data_dir, "tenants": ("*",)})


def index_and_graph(opened: Opened) -> tuple[Projection, Projection]:
    """Index and graph; SourceError when one of them could not be opened."""
    if opened.index is None or opened.graph is None:
        raise SourceError("; ".join(opened.broken.values()))
    return opened.index, opened.graph


@contextlib.asynccontextmanager
async def prepared(
    plan: Plan, private: Settings, progress: Progress, summary: RunSummary
) -> AsyncGenerator[tuple[Opened, Contents]]:
    """The stores in the folder of `private`, open and filled with the plan's memories, and their contents.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    with timed(summary, "reading"):
        memories = await asyncio.to_thread(read_memories, plan.memories)
        contents = Contents.of(memories)
        _check_together(plan, contents, summary)
        steps = await asyncio.to_thread(changes, memories)
        sparse = await asyncio.to_thread(SparseEncoder, plan.keywords or private.keyword_weights)
    embedders: list[CachedEmbedder] = []

    def around(embedder: Embedder) -> Embedder:
        if plan.cache is None:
            return embedder
        embedders.append(cached(embedder, plan.cache))
        return embedders[0]

    with vectors_open(plan.cache):
        async with open_sources(private, around=around, sparse=sparse) as opened:
            with timed(summary, "index and graph"):
                progress.begins("index and graph", len(steps))
                await fill(index_and_graph(opened), steps, progress.advanced)
            for embedder in embedders:
                summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache
            yield opened, contents


@contextlib.contextmanager
def vectors_open(cache: VectorCache | None) -> Generator[None]:
    if cache is not None:
        cache.open()
    try:
        yield
    finally:
        if cache is not None:
            cache.close()


def _check_together(plan: Plan, contents: Contents, summary: RunSummary) -> None:
    """EvaluationError for a query whose conversation has no memory; counts evidence that is no memory of it."""
    known = {conversation: frozenset(ids) for conversation, ids in contents.ids.items()}
    for query in plan.queries:
        if query.conversation not in known:
            raise EvaluationError(
                f"{plan.queries_file}:{query.line}: conversation_id {query.conversation!r} has no memory in "
                f"{plan.memories}"
            )
    summary.evidence_unknown = sum(len(query.evidence - known[query.conversation]) for query in plan.queries)
    summary.memories, summary.conversations = sum(map(len, known.values())), len(known)
