"""The plan of a run and its stores: embedded, in a folder of their own, filled with the memories of its file."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.dataset import JudgedQuery, read_memories
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache, cached
from orion_recall.index.texts import event_time
from orion_recall.interfaces import Projection
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Change, Memory, Neighbour, Outcome

# Prefixes of the settings that a run keeps: models, profiles and the timeline. Addresses of other stores must not
# be among them: the memories of the evaluation would be written there.
_KEPT_SETTINGS = tuple(
    "model embedder embedding_precision token_vectors tei keyword_weights reranker timeline postgres profiles node "
    "log".split()
)
_AT_ONCE = 200


class Progress(Protocol):
    """Receives the progress of a run."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The ids of every conversation's memories, and the time of each conversation's newest memory (epoch seconds).

    A conversation without any date is not in `newest`.
    """

    ids: Mapping[str, Sequence[str]]
    newest: Mapping[str, float]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Contents:
        ids: dict[str, list[str]] = {}
        newest: dict[str, float] = {}
        for memory in memories:
            ids.setdefault(memory.tenant, []).append(memory.id)
            moment = event_time(memory)
            if moment is not None:
                newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
        return cls(ids=ids, newest=newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run: the queries in order, the file of memories, and the profile.

    `keywords` are other constants of the keyword index than those of the settings.
    """

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    cache: VectorCache | None = None
    keywords: KeywordWeights | None = None


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """The summary of a run.

    `silent` has the sources that failed, with the count and the first reason of each. `late_off` is why there was
    no late interaction although the profile has it. `query_ms`, `stage_ms` and `source_ms` are milliseconds by
    percentile: p50, p95, p99.
    """

    profile: str
    profile_hash: str
    model: str = ""
    queries: int = 0
    memories: int = 0
    conversations: int = 0
    evidence_unknown: int = 0
    timeline: bool = False
    unsure: int = 0
    vectors_embedded: int = 0
    vectors_from_cache: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    silent: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    late_off: str | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    query_ms: dict[str, float] = field(default_factory=dict[str, float])
    stage_ms: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    source_ms: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


@contextlib.contextmanager
def timed(summary: RunSummary, what: str) -> Generator[None]:
    began = time.perf_counter()
    yield
    summary.seconds[what] = round(time.perf_counter() - began, 2)


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

    with plan.cache or contextlib.nullcontext():
        async with open_sources(private, around=around, sparse=sparse) as opened:
            with timed(summary, "index and graph"):
                progress.begins("index and graph", len(steps))
                await fill(index_and_graph(opened), steps, progress.advanced)
            for embedder in embedders:
                summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache
            yield opened, contents


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


def changes(memories: Sequence[Memory]) -> list[Change]:
    """One change for each memory, in order, with its neighbouring turns by time, then by place in the file.

    The outbox repeats a turn when its neighbours change; here all neighbours are known, so once is enough.
    """
    sessions: dict[tuple[str, str], list[int]] = {}
    for place, memory in enumerate(memories):
        if memory.session_id is not None:
            sessions.setdefault((memory.tenant, memory.session_id), []).append(place)
    times = [event_time(memory) for memory in memories]
    before: dict[int, Memory] = {}
    after: dict[int, Memory] = {}
    for places in sessions.values():
        # As in the record: undated ones come first.
        places.sort(key=lambda place: (-math.inf if times[place] is None else times[place], place))
        for one, other in pairwise(places):
            after[one], before[other] = memories[other], memories[one]
    return [
        Change(
            position=place + 1,
            memory=memory,
            previous=_neighbour(before.get(place)),
            following=_neighbour(after.get(place)),
        )
        for place, memory in enumerate(memories)
    ]


async def fill(
    projections: Sequence[Projection], steps: Sequence[Change], advanced: Callable[[int], None] | None = None
) -> None:
    """Applies every change to every projection, concurrently. `advanced` is called with the number done."""
    for start in range(0, len(steps), _AT_ONCE):
        batch = steps[start : start + _AT_ONCE]
        await asyncio.gather(*(projection.apply(batch) for projection in projections))
        if advanced is not None:
            advanced(start + len(batch))


def _neighbour(memory: Memory | None) -> Neighbour | None:
    return None if memory is None else Neighbour(id=memory.id, text=memory.text, speaker=memory.speaker)
