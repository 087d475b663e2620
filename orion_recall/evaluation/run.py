"""One run: memories into stores of their own, every query through the recall itself, one line a query.

Every conversation is a tenant, so no search leaves it. The stores are embedded, in a folder that lives as long as
the run; servers and stores that the settings name are left alone, but for the timeline: with a Postgres configured
its table is searched as it is, without one that arm is off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.dataset import JudgedQuery, read_memories
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.snapshots import Contents, Snapshots, snapshot_key
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache
from orion_recall.models.embedder import Embedder
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.settings import Settings
from orion_recall.sources.source import Projection
from orion_recall.stores import Opened, open_sources
from orion_recall.values import Memory, Outcome

# How good recall is must not depend on how busy the machine is: sources get all the time that a profile may give.
_SOURCE_TIMEOUT_MS = 60_000
# Settings that a run takes over: models, profiles and the timeline. An address of a store must not be among them,
# for the memories of the evaluation would be written to it.
_TAKEN_OVER = ("model", "embedder", "tei", "reranker", "timeline", "postgres", "profiles", "node", "log")


class Progress(Protocol):
    """Who is told how far a run is."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


class Cache:
    """What is kept from one run to the next, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vectors, self.snapshots = VectorCache(folder), Snapshots(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run: the queries in order, the memories' file, how to recall, and where the lines go."""

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    out: Path
    cache: Cache | None


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """What a run was.

    `from_cache`: index and graph are those of an earlier run. `silent` are the sources that failed, how often, and
    the first reason of each.
    """

    profile: str
    profile_hash: str
    model: str = ""
    queries: int = 0
    memories: int = 0
    conversations: int = 0
    evidence_unknown: int = 0
    timeline: bool = False
    from_cache: bool = False
    vectors_embedded: int = 0
    vectors_from_cache: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    silent: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    query_ms: dict[str, float] = field(default_factory=dict[str, float])


async def run(plan: Plan, settings: Settings, progress: Progress) -> RunSummary:
    """Runs the plan and puts the file in its place once all of it is there.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    summary = RunSummary(profile=plan.profile.profile, profile_hash=plan.profile.content_hash)
    with _written_beside(plan.out) as lines, tempfile.TemporaryDirectory(prefix="orion-eval-") as folder:
        private = private_settings(settings, Path(folder) / "data")
        contents = await _restored(plan, private, summary) or await _built(plan, private, progress, summary)
        async with open_sources(private) as opened:
            _check_open(opened)
            summary.model = opened.embedder.name
            summary.timeline = "sql_timeline" in opened.sources.arms
            with _timed(summary, "queries"):
                await _ask_all(plan, opened, contents.newest, lines, progress, summary)
    return summary


def private_settings(settings: Settings, data_dir: Path) -> Settings:
    """The settings of a run: all but what it takes over is as if nothing was configured."""
    untouched = {
        name: option.get_default(call_default_factory=True)
        for name, option in Settings.model_fields.items()
        if not name.startswith(_TAKEN_OVER)
    }
    return settings.changed(**untouched | {"data_dir": data_dir, "tenants": ("*",)})


async def _restored(plan: Plan, private: Settings, summary: RunSummary) -> Contents | None:
    """What an earlier run has filled, copied; None when there is none, or the stores refuse to be opened."""
    if plan.cache is None:
        return None
    key = _key(plan, private)
    with _timed(summary, "stores from the cache"):
        contents = await asyncio.to_thread(plan.cache.snapshots.restore, key, private.data_dir)
    if contents is None:
        return None
    _check_together(plan, contents, summary)
    async with open_sources(private) as opened:
        whole = not opened.broken and opened.index is not None and opened.index.position == contents.count
    if not whole:
        plan.cache.snapshots.forget(key)
        shutil.rmtree(private.data_dir)
        return None
    summary.from_cache = True
    return contents


async def _built(plan: Plan, private: Settings, progress: Progress, summary: RunSummary) -> Contents:
    with _timed(summary, "reading"):
        memories = await asyncio.to_thread(read_memories, plan.memories)
        contents = Contents.of(memories)
        _check_together(plan, contents, summary)
    with _timed(summary, "index and graph"):
        await _fill(plan, private, memories, progress, summary)
    if plan.cache is not None:
        await asyncio.to_thread(plan.cache.snapshots.keep, _key(plan, private), private.data_dir, contents)
    return contents


async def _fill(
    plan: Plan, private: Settings, memories: Sequence[Memory], progress: Progress, summary: RunSummary
) -> None:
    embedders: list[CachedEmbedder] = []

    def around(embedder: Embedder) -> Embedder:
        if plan.cache is None:
            return embedder
        embedders.append(CachedEmbedder(embedder, plan.cache.vectors))
        return embedders[0]

    with contextlib.ExitStack() as stack:
        if plan.cache is not None:
            stack.callback(plan.cache.vectors.close)
            plan.cache.vectors.open()
        async with open_sources(private, around=around) as opened:
            index, graph = _check_open(opened)
            progress.begins("index and graph", len(memories))
            await fill((index, graph), await asyncio.to_thread(changes, memories), progress.advanced)
    for embedder in embedders:
        summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache


def _key(plan: Plan, private: Settings) -> str:
    try:
        return snapshot_key(plan.memories, private)
    except OSError as error:
        raise EvaluationError(f"{plan.memories}: {error.strerror or type(error).__name__}") from error


def _check_open(opened: Opened) -> tuple[Projection, Projection]:
    if opened.index is None or opened.graph is None:
        raise SourceError("; ".join(opened.broken.values()))
    return opened.index, opened.graph


async def _ask_all(
    plan: Plan,
    opened: Opened,
    newest: Mapping[str, float],
    lines: TextIO,
    progress: Progress,
    summary: RunSummary,
) -> None:
    """One after the other: queries that are embedded together differ in the last bits."""
    progress.begins("queries", len(plan.queries))
    profile = plan.profile.model_copy(update={"source_timeout_ms": _SOURCE_TIMEOUT_MS})
    began, took = time.time(), list[float]()
    for done, query in enumerate(plan.queries, 1):
        started = time.perf_counter()
        recalled = await recall(
            RecallQueryV1(fragment=query.text),
            profile,
            opened.sources,
            tenant=query.conversation,
            now=newest.get(query.conversation, began) if query.asked_at is None else query.asked_at,
            timeout_s=_SOURCE_TIMEOUT_MS / 1000,
        )
        took.append((time.perf_counter() - started) * 1000)
        _note(recalled, summary)
        lines.write(json.dumps(_line(query, recalled, plan.profile), ensure_ascii=False) + "\n")
        progress.advanced(done)
    took.sort()
    summary.query_ms = {"p50": took[len(took) // 2], "p95": took[math.ceil(len(took) * 0.95) - 1]}


def _line(query: JudgedQuery, recalled: Recalled, profile: Profile) -> dict[str, Any]:
    """Nothing that differs between two runs of the same: they can be compared byte by byte."""
    items = recalled.selection.items
    return {
        "query_id": query.id,
        "category": query.category,
        "profile": profile.profile,
        "outcome": recalled.outcome,
        "ranked": [item.memory.id for item in recalled.ranked],
        "selected": [item.scored.memory.id for item in items],
        "selected_tokens": [item.tokens for item in items],
        "tokens": recalled.selection.tokens,
    }


def _note(recalled: Recalled, summary: RunSummary) -> None:
    summary.queries += 1
    summary.outcomes[recalled.outcome] += 1
    for report in recalled.reports:
        if report.status in ("failed", "late"):
            times, first = summary.silent.get(report.source, (0, report.error or report.status))
            summary.silent[report.source] = (times + 1, first)


def _check_together(plan: Plan, contents: Contents, summary: RunSummary) -> None:
    """EvaluationError for a query whose conversation has no memory; evidence that is no memory is counted."""
    known = {conversation: frozenset(ids) for conversation, ids in contents.ids.items()}
    for query in plan.queries:
        if query.conversation not in known:
            raise EvaluationError(
                f"{plan.queries_file}:{query.line}: conversation_id {query.conversation!r} has no memory in "
                f"{plan.memories}"
            )
    summary.evidence_unknown = sum(len(query.evidence - known[query.conversation]) for query in plan.queries)
    summary.memories, summary.conversations = contents.count, len(known)


@contextlib.contextmanager
def _written_beside(out: Path) -> Generator[TextIO]:
    """A file that takes its place when the block ends well, and is gone when it does not."""
    if out.is_dir():
        raise EvaluationError(f"{out} is a folder: name a file in it")
    if not out.parent.is_dir():
        raise EvaluationError(f"{out.parent} is no folder: make it first")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as lines:
            yield lines
            lines.flush()
            os.fsync(lines.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _timed(summary: RunSummary, what: str) -> Generator[None]:
    began = time.perf_counter()
    yield
    summary.seconds[what] = round(time.perf_counter() - began, 2)
