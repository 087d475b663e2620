"""The stores of a run: filled with the memories of its file, or restored from the snapshot of an earlier run."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.plan import Plan, Progress, RunSummary, timed
from orion_recall.evaluation.snapshots import Contents, snapshot_key
from orion_recall.evaluation.vectors import CachedEmbedder, cached
from orion_recall.index.keyword_lengths import with_lengths
from orion_recall.interfaces import Projection
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.values import Memory

# Prefixes of the settings that a run keeps: models, profiles and the timeline. Addresses of other stores must not
# be among them: the memories of the evaluation would be written there.
_KEPT_SETTINGS = (
    "model",
    "embedder",
    "embedding_precision",
    "token_vectors",
    "tei",
    "keyword_weights",
    "reranker",
    "timeline",
    "postgres",
    "profiles",
    "node",
    "log",
)

_LOOKING = "looking into the cache"


def private_settings(settings: Settings, data_dir: Path) -> Settings:
    """The settings of a run: defaults, but for those that a run keeps."""
    untouched = {
        name: option.get_default(call_default_factory=True)
        for name, option in Settings.model_fields.items()
        if not name.startswith(_KEPT_SETTINGS)
    }
    return settings.changed(**untouched | {"data_dir": data_dir, "tenants": ("*",)})


@contextlib.asynccontextmanager
async def prepared(
    plan: Plan, private: Settings, progress: Progress, summary: RunSummary
) -> AsyncGenerator[tuple[Opened, Contents]]:
    """The stores in the folder of `private`, open and filled with the plan's memories, and their contents.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    async with contextlib.AsyncExitStack() as stack:
        contents = await _restored(plan, private, summary)
        sparse = await asyncio.to_thread(_sparse_of, plan, private)
        if contents is not None:
            opened = await stack.enter_async_context(open_sources(private, sparse=sparse))
            if opened.index is not None and opened.index.position >= contents.count and not opened.broken:
                summary.from_cache = True
                yield opened, contents
                return
            await stack.aclose()
            await asyncio.to_thread(_throw_away, plan, private)
        contents = await _built(plan, private, sparse, progress, summary)
        opened = await stack.enter_async_context(open_sources(private, sparse=sparse))
        index_and_graph(opened)
        yield opened, contents


def index_and_graph(opened: Opened) -> tuple[Projection, Projection]:
    """Index and graph; SourceError when one of them could not be opened."""
    if opened.index is None or opened.graph is None:
        raise SourceError("; ".join(opened.broken.values()))
    return opened.index, opened.graph


async def _restored(plan: Plan, private: Settings, summary: RunSummary) -> Contents | None:
    """The contents of a restored snapshot; None when there is none."""
    if plan.cache is None:
        return None
    key = _key(plan, private)
    with timed(summary, _LOOKING):
        contents = await asyncio.to_thread(plan.cache.snapshots.restore, key, private.data_dir)
    if contents is None:
        return None
    summary.seconds["stores from the cache"] = summary.seconds.pop(_LOOKING)
    _check_together(plan, contents, summary)
    return contents


def _throw_away(plan: Plan, private: Settings) -> None:
    if plan.cache is not None:
        plan.cache.snapshots.forget(_key(plan, private))
    shutil.rmtree(private.data_dir)


def _sparse_of(plan: Plan, private: Settings) -> SparseEncoder:
    """The keyword weights; mean lengths are those of the file's memories, where they are to be the corpus' own."""
    weights = private.keyword_weights
    told = changes(read_memories(plan.memories)) if weights.length is None else ()
    return SparseEncoder(with_lengths(weights, told))


async def _built(
    plan: Plan, private: Settings, sparse: SparseEncoder, progress: Progress, summary: RunSummary
) -> Contents:
    with timed(summary, "reading"):
        memories = await asyncio.to_thread(read_memories, plan.memories)
        contents = Contents.of(memories)
        _check_together(plan, contents, summary)
    with timed(summary, "index and graph"):
        await _fill(plan, private, memories, sparse, progress, summary)
    if plan.cache is not None:
        await asyncio.to_thread(plan.cache.snapshots.keep, _key(plan, private), private.data_dir, contents)
    return contents


async def _fill(
    plan: Plan,
    private: Settings,
    memories: Sequence[Memory],
    sparse: SparseEncoder,
    progress: Progress,
    summary: RunSummary,
) -> None:
    embedders: list[CachedEmbedder] = []

    def around(embedder: Embedder) -> Embedder:
        if plan.cache is None:
            return embedder
        embedders.append(cached(embedder, plan.cache.vectors))
        return embedders[0]

    with contextlib.ExitStack() as stack:
        if plan.cache is not None:
            stack.callback(plan.cache.vectors.close)
            plan.cache.vectors.open()
        async with open_sources(private, around=around, sparse=sparse) as opened:
            index, graph = index_and_graph(opened)
            progress.begins("index and graph", len(memories))
            steps = await asyncio.to_thread(changes, memories)
            await fill((index, graph), steps, progress.advanced)
    for embedder in embedders:
        summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache


def _key(plan: Plan, private: Settings) -> str:
    try:
        return snapshot_key(plan.memories, private)
    except OSError as error:
        raise EvaluationError(f"{plan.memories}: {error.strerror or type(error).__name__}") from error


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
    summary.memories, summary.conversations = contents.count, len(known)
