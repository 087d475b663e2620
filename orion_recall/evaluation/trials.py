"""Recalls of judged queries in stores that are filled once: under many profiles, or as a run that is written.

Every conversation is a tenant, so no search leaves it. The stores are embedded, in a folder deleted after the run.
Servers in the settings are not used, except for the timeline: with a Postgres its table is searched as it is,
without one that source is off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from orion_recall.atomic_file import whole_text
from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.decisions.comparison import percentile
from orion_recall.errors import EvaluationError, SourceError
from orion_recall.evaluation.baselines import BaselineName, Baselines
from orion_recall.evaluation.dataset import Contents, JudgedQuery, RunLine, read_memories
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache
from orion_recall.interfaces import Projection
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Change, Memory, Neighbour, Outcome

# Figures must not depend on the load of the machine: sources get the longest timeout that a profile may have.
SOURCE_TIMEOUT_MS = 60_000

# Prefixes of the settings that a run keeps: models, profiles and the timeline. Addresses of other stores must not
# be among them: the memories of the evaluation would be written there.
_KEPT_SETTINGS = tuple(
    "model embedder embedding_precision token_vectors tei keyword_weights reranker timeline postgres profiles node "
    "log".split()
)
_AT_ONCE = 200
_NAMED = 5

Run = dict[str, RunLine]


class Progress(Protocol):
    """Receives the progress of a run."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


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


class Trials:
    """Recalls of the plan's queries under any number of profiles."""

    def __init__(self, plan: Plan, opened: Opened, contents: Contents, progress: Progress) -> None:
        self.plan, self.opened, self.contents = plan, opened, contents
        self._progress, self._began = progress, time.time()

    async def recalled(self, query: JudgedQuery, profile: Profile) -> Recalled:
        """The recall of the query at its own time, else at that of its conversation's newest memory."""
        moment = None if query.asked_at is None else datetime.fromtimestamp(query.asked_at, UTC)
        options = None
        if query.scope is not None or query.user_id is not None or moment is not None:
            options = RecallOptionsV1(scope=query.scope, user=query.user_id, as_of=moment)
        return await recall(
            RecallQueryV1(fragment=query.text, session_id=query.session_id, intent=query.intent, options=options),
            patient(profile),
            self.opened.sources,
            tenant=query.conversation,
            now=self.contents.newest.get(query.conversation, self._began),
            timeout_s=SOURCE_TIMEOUT_MS / 1000,
        )

    async def run(self, profile: Profile, *, what: str, queries: Sequence[JudgedQuery] | None = None) -> Run:
        """The result of every query by its id, or of these. `what` names the trial in the progress."""
        found: Run = {}
        async for query, recalled in self.recalls(profile, what=what, queries=queries):
            found[query.id] = RunLine(
                ranked=tuple(item.memory.id for item in recalled.ranked),
                selected=tuple(item.scored.memory.id for item in recalled.selection.items),
                unsure=recalled.is_unsure,
            )
        return found

    async def recalls(
        self, profile: Profile, *, what: str, queries: Sequence[JudgedQuery] | None = None
    ) -> AsyncGenerator[tuple[JudgedQuery, Recalled]]:
        """Every query with its recall, one after the other.

        SourceError when a source or late interaction fails: the figures would be wrong.
        """
        asked = self.plan.queries if queries is None else queries
        self._progress.begins(what, len(asked))
        for done, query in enumerate(asked, 1):
            recalled = await self.recalled(query, profile)
            for name, error in silent_of(recalled).items():
                raise SourceError(f"{name} did not answer {query.id!r}: {error}")
            yield query, recalled
            self._progress.advanced(done)


def patient(profile: Profile) -> Profile:
    """The profile with the longest timeouts for sources and cascade layers."""
    cascade = profile.cascade.model_copy(update={"timeout_ms": SOURCE_TIMEOUT_MS})
    return profile.model_copy(update={"source_timeout_ms": SOURCE_TIMEOUT_MS, "cascade": cascade})


def silent_of(recalled: Recalled) -> dict[str, str]:
    """The sources, and late interaction, that failed or were late, with the reason."""
    asked = {str(report.source): report for report in recalled.reports}
    if recalled.late_interaction is not None:
        asked |= {"late interaction": recalled.late_interaction}
    return {name: one.error or one.status for name, one in asked.items() if one.status in ("failed", "late")}


@contextlib.asynccontextmanager
async def trials(
    plan: Plan, settings: Settings, progress: Progress, summary: RunSummary | None = None
) -> AsyncGenerator[Trials]:
    """The plan's memories in stores of their own until the end of the block; the summary is told of them.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    summary = summary or RunSummary(profile=plan.profile.profile, profile_hash=plan.profile.content_hash)
    began = time.perf_counter()
    memories = await asyncio.to_thread(read_memories, plan.memories)
    contents = Contents.of(memories)
    _check_together(plan, contents, summary)
    steps = await asyncio.to_thread(changes, memories)
    sparse = await asyncio.to_thread(SparseEncoder, plan.keywords or settings.keyword_weights)
    summary.seconds["reading"] = _seconds_since(began)
    embedders: list[CachedEmbedder] = []

    def around(embedder: Embedder) -> Embedder:
        if plan.cache is None:
            return embedder
        embedders.append(CachedEmbedder(embedder, plan.cache))
        return embedders[0]

    with tempfile.TemporaryDirectory(prefix="orion-eval-") as folder, plan.cache or contextlib.nullcontext():
        private = private_settings(settings, Path(folder) / "data")
        async with open_sources(private, around=around, sparse=sparse, with_packages=False) as opened:
            began = time.perf_counter()
            progress.begins("index and graph", len(steps))
            await fill(index_and_graph(opened), steps, progress.advanced)
            summary.seconds["index and graph"] = _seconds_since(began)
            for embedder in embedders:
                summary.vectors_embedded, summary.vectors_from_cache = embedder.embedded, embedder.from_cache
            summary.model, summary.timeline = opened.embedder.name, "sql_timeline" in opened.sources.by_name
            yield Trials(plan, opened, contents, progress)


def _seconds_since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


def _check_together(plan: Plan, contents: Contents, summary: RunSummary) -> None:
    """EvaluationError for a query whose conversation has no memory; counts evidence that is no memory of it."""
    known = {conversation: frozenset(ids) for conversation, ids in contents.ids.items()}
    for query in plan.queries:
        if query.conversation not in known:
            raise EvaluationError(
                f"{plan.queries_file}:{query.line}: conversation_id {query.conversation!r} has no memory in "
                f"{plan.memories}, whose conversations (or tenants) are {', '.join(sorted(known)[:_NAMED])}"
            )
    summary.evidence_unknown = sum(len(query.evidence - known[query.conversation]) for query in plan.queries)
    summary.memories, summary.conversations = sum(map(len, known.values())), len(known)


Times = dict[tuple[str, str], list[float]]
"""Milliseconds by kind and name."""


async def run(
    plan: Plan, out: Path, settings: Settings, progress: Progress, *, baseline: BaselineName | None = None
) -> RunSummary:
    """Runs the plan, or a baseline instead of its profile, and writes the file `out`, atomically at the end.

    EvaluationError: the files cannot be used. SourceError: the stores could not be opened.
    """
    name = plan.profile.profile if baseline is None else f"baseline.{baseline}"
    content_hash = plan.profile.content_hash if baseline is None else ""
    summary = RunSummary(profile=name, profile_hash=content_hash)
    with whole_text(out) as lines:
        async with trials(plan, settings, progress, summary) as tried:
            times: Times = defaultdict(list)
            progress.begins("queries", len(plan.queries))
            baselines = Baselines.of(tried.opened, tried.contents) if baseline is not None else None
            all_began = time.perf_counter()
            # One after the other: vectors embedded in one batch differ in the last bits.
            for done, query in enumerate(plan.queries, 1):
                began = time.perf_counter()
                if baseline is not None and baselines is not None:
                    found = await baselines.line(baseline, query)
                    line = found.model_dump(include={"ranked", "selected", "unsure"})
                    line |= {"outcome": "ok" if found.ranked else "empty", "probability": None}
                else:
                    recalled = await tried.recalled(query, plan.profile)
                    _note(recalled, summary, times)
                    line = _line(recalled)
                times["query", ""].append((time.perf_counter() - began) * 1000)
                about = {
                    "query_id": query.id,
                    "conversation_id": query.conversation,
                    "category": query.category,
                    "profile": name,
                }
                lines.write(json.dumps(about | line, ensure_ascii=False) + "\n")
                summary.queries += 1
                progress.advanced(done)
            summary.seconds["queries"] = _seconds_since(all_began)
            summary.query_ms = _percentiles(times, "query")[""]
            summary.stage_ms, summary.source_ms = _percentiles(times, "stage"), _percentiles(times, "source")
    return summary


def _line(recalled: Recalled) -> dict[str, Any]:
    """A line of the run file, without anything that differs between equal runs: they can be compared bytewise."""
    items = recalled.selection.items
    return {
        "outcome": recalled.outcome,
        "ranked": [one.memory.id for item in recalled.ranked for one in (item, *item.same)],
        "selected": [item.scored.memory.id for item in items],
        "unsure": recalled.is_unsure,
        "probability": recalled.confidence.probability,
        "selected_tokens": [item.tokens for item in items],
        "tokens": recalled.selection.tokens,
        "withheld": recalled.withheld.reason if recalled.withheld else None,
    }


def _note(recalled: Recalled, summary: RunSummary, times: Times) -> None:
    summary.outcomes[recalled.outcome] += 1
    summary.unsure += recalled.is_unsure
    for stage, ms in recalled.stage_ms.items():
        times["stage", stage].append(ms)
    for report in recalled.reports:
        if report.status != "off":
            times["source", str(report.source)].append(report.ms)
    if (late := recalled.late_interaction) is not None and late.status == "off":
        summary.late_off = late.error
    for name, error in silent_of(recalled).items():
        times_silent, first = summary.silent.get(name, (0, error))
        summary.silent[name] = (times_silent + 1, first)


def _percentiles(times: Times, kind: str) -> dict[str, dict[str, float]]:
    """p50, p95 and p99 by name: the smallest value that the share of them does not exceed."""
    return {
        name: {f"p{share}": percentile(taken, share) for share in (50, 95, 99)}
        for (of, name), taken in times.items()
        if of == kind
    }


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


def changes(memories: Sequence[Memory]) -> list[Change]:
    """One change for each memory, in order, with its neighbouring turns by time, then by place in the file.

    The outbox repeats a turn when its neighbours change; here all neighbours are known, so once is enough.
    """
    sessions: dict[tuple[str, str], list[int]] = {}
    for place, memory in enumerate(memories):
        if memory.session_id is not None:
            sessions.setdefault((memory.tenant, memory.session_id), []).append(place)
    times = [memory.ts for memory in memories]
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
