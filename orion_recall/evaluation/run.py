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
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.dataset import JudgedQuery, read_memories
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache
from orion_recall.models.embedder import Embedder
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.settings import Settings
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run: the queries in order, the memories' file, how to recall, and where the lines go."""

    memories: Path
    queries_file: Path
    queries: Sequence[JudgedQuery]
    profile: Profile
    out: Path
    cache: VectorCache | None


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """What a run was. `silent` are the sources that failed, how often, and the first reason of each."""

    profile: str
    profile_hash: str
    model: str = ""
    queries: int = 0
    memories: int = 0
    conversations: int = 0
    evidence_unknown: int = 0
    timeline: bool = False
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
    with _written_beside(plan.out) as lines:
        with _timed(summary, "reading"):
            memories = await asyncio.to_thread(read_memories, plan.memories)
            newest = _newest(memories)
            _check_together(plan, memories, newest, summary)
        async with _stores(settings, plan.cache, summary) as opened:
            with _timed(summary, "index and graph"):
                await _fill(opened, memories, progress)
            with _timed(summary, "queries"):
                await _ask_all(plan, opened, newest, lines, progress, summary)
    return summary


def private_settings(settings: Settings, data_dir: Path) -> Settings:
    """The settings of a run: all but what it takes over is as if nothing was configured."""
    untouched = {
        name: option.get_default(call_default_factory=True)
        for name, option in Settings.model_fields.items()
        if not name.startswith(_TAKEN_OVER)
    }
    return settings.changed(**untouched | {"data_dir": data_dir, "tenants": ("*",)})


@contextlib.asynccontextmanager
async def _stores(settings: Settings, cache: VectorCache | None, summary: RunSummary) -> AsyncGenerator[Opened]:
    embedders: list[CachedEmbedder] = []

    def around(embedder: Embedder) -> Embedder:
        if cache is None:
            return embedder
        embedders.append(CachedEmbedder(embedder, cache))
        return embedders[0]

    with contextlib.ExitStack() as stack:
        if cache is not None:
            stack.callback(cache.close)
            cache.open()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="orion-eval-"))
        async with open_sources(private_settings(settings, Path(folder)), around=around) as opened:
            summary.model = opened.embedder.name
            summary.timeline = "sql_timeline" in opened.sources.arms
            yield opened
        for embedder in embedders:
            summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache


async def _fill(opened: Opened, memories: Sequence[Memory], progress: Progress) -> None:
    if opened.index is None or opened.graph is None:
        raise SourceError("; ".join(opened.broken.values()))
    progress.begins("index and graph", len(memories))
    steps = await asyncio.to_thread(changes, memories)
    await fill((opened.index, opened.graph), steps, progress.advanced)


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


def _check_together(
    plan: Plan, memories: Sequence[Memory], newest: Mapping[str, float], summary: RunSummary
) -> None:
    """EvaluationError for a query whose conversation has no memory; evidence that is no memory is counted."""
    known = {(memory.tenant, memory.id) for memory in memories}
    conversations = {tenant for tenant, _ in known}
    for query in plan.queries:
        if query.conversation not in conversations:
            raise EvaluationError(
                f"{plan.queries_file}:{query.line}: conversation_id {query.conversation!r} has no memory in "
                f"{plan.memories}"
            )
        summary.evidence_unknown += sum((query.conversation, name) not in known for name in query.evidence)
    summary.memories, summary.conversations = len(memories), len(conversations)


def _newest(memories: Sequence[Memory]) -> dict[str, float]:
    """When each conversation was last spoken in; one without any date is left out."""
    newest: dict[str, float] = {}
    for memory in memories:
        moment = memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at
        if moment is not None:
            newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
    return newest


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
