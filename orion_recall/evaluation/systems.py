"""The systems of the analysis of retrieval beside profiles: how well they find, how fast, and how they grow.

like        SQL's LIKE '%word%', what the analysis starts from
bm25_decay  BM25 times exp(-lambda * age)
vector      nearest by the embedding of the question
rrf         the hybrid: vector and keywords fused by rank

Latency is measured over synthetic turns: the first half of one text and the second half of another, so that
lengths and frequencies of words are those of the data set. The same seed gives the same turns.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from orion_recall.contracts import MemoryV1
from orion_recall.errors import EvaluationError
from orion_recall.evaluation.baselines import BaselineName, Baselines
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.measures import Wanted, judged, measure
from orion_recall.evaluation.plan import Contents, Progress
from orion_recall.evaluation.run import percentiles_of
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.evaluation.trials import Asking, Run, Trials
from orion_recall.evaluation.word_vectors import WordVectors
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.text_forms import keyword_form
from orion_recall.memory.record.compose import compose
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.profile import Profile
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings
from orion_recall.text.normal import content_words
from orion_recall.values import Memory


class System(NamedTuple):
    """A system: its baseline, how it is called, and its target in milliseconds (P95; None: none)."""

    name: BaselineName
    label: str
    target_ms: float | None


SYSTEMS: tuple[System, ...] = (
    System("like", "LIKE", None),
    System("bm25_decay", "BM25 with decay", 15.0),
    System("vector", "Semantic", 100.0),
    System("rrf", "Hybrid by RRF", None),
)
MEMORY_OPERATION_MS, PIPELINE_MS = 50.0, 500.0
"""The targets for storing one turn and for a whole recall, P95."""
MEASURES = ("precision@5", "recall@5", "mrr", "map")
TENANT = "scaling"
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

_TURNS_A_SESSION, _SECONDS_APART, _SEED = 20, 60.0, 4
_SHOWN, _WARM_UP, _NEW_TURNS = 10, 3, 30
_WEIGHT_BYTES, _NUMBER_BYTES = 8, 4
_COMPARED_AT = 1_000
_NONE = "-"
T = TypeVar("T")
Latency = Mapping[str, float]
"""p50, p95 and p99 in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One system's means by measure, and its recall@5 of two kinds of queries (None: there are none).

    `temporal` are those of the category of that name; `other_words` share no word with their evidence.
    """

    name: str
    label: str
    queries: int
    means: Mapping[str, float]
    temporal: float | None
    other_words: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSize:
    """What was measured with so many turns.

    `searches` by system and `recalls` by profile; `memory_operation` is the storing of one turn. `bytes_held` is
    what a system keeps to search: texts; 8 bytes a term and turn; 4 a number of a vector. `disk_bytes` is index and
    graph of orion-recall together.
    """

    turns: int
    searches: Mapping[str, Latency]
    recalls: Mapping[str, Latency]
    memory_operation: Latency
    bytes_held: Mapping[str, int]
    disk_bytes: int


class TextTable(NamedTuple):
    """A table with a title: names of columns, and rows as long."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table as Markdown, with its title in bold above it."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def compare_quality(
    trials: Trials, memories: Sequence[Memory], profiles: Sequence[Profile]
) -> Sequence[Quality]:
    """The quality of every system, then of every profile, over the plan's judged queries."""
    queries, baselines = judged(trials.plan.queries), Baselines.of(trials.opened, trials.contents)
    differing = in_other_words(queries, memories)
    found: list[Quality] = []
    for system in SYSTEMS:
        run = {query.id: await baselines.line(system.name, query) for query in queries}
        found.append(_quality(system.name, system.label, run, queries, differing))
    for profile in profiles:
        run = await trials.run(profile, what=profile.profile)
        found.append(_quality(profile.profile, profile.profile, run, queries, differing))
    return found


def in_other_words(queries: Sequence[JudgedQuery], memories: Sequence[Memory]) -> Sequence[JudgedQuery]:
    """The queries of which no content word occurs in their evidence or its speaker's name."""
    words = {
        (one.tenant, one.id): frozenset(content_words(f"{one.speaker or ''} {one.title or ''} {one.text}"))
        for one in memories
    }
    return [
        query
        for query in queries
        if all(
            words.get((query.conversation, name), frozenset()).isdisjoint(content_words(query.text))
            for name in query.evidence
        )
    ]


def _quality(
    name: str, label: str, run: Run, queries: Sequence[JudgedQuery], differing: Sequence[JudgedQuery]
) -> Quality:
    def means(of: Sequence[JudgedQuery]) -> Mapping[str, float]:
        measured = measure(run, of, Wanted(depths=(5,)))
        return dict(zip(measured.measures, measured.values.mean(axis=0).tolist(), strict=True))

    temporal = [query for query in queries if query.category == "temporal"]
    of_all = means(queries)
    return Quality(
        name=name,
        label=label,
        queries=len(queries),
        means={measure: of_all[measure] for measure in MEASURES},
        temporal=means(temporal)["recall@5"] if temporal else None,
        other_words=means(differing)["recall@5"] if differing else None,
    )


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
            turns = synthetic_turns(memories, size)
            progress.begins(f"{size:,} turns: index and graph", size)
            projections = index_and_graph(opened)
            await fill(projections, changes(turns), progress.advanced)
            if isinstance(opened.index, EdgeIndex):
                await opened.index.optimise()
            baselines = Baselines.of(opened, Contents.of(turns))

            async def searched(name: BaselineName, query: JudgedQuery) -> None:
                found = await baselines.ranked(name, query)
                await baselines.index.fetch([key for key, _ in found[:_SHOWN]])

            progress.begins(f"{size:,} turns: searches", len(SYSTEMS) + len(profiles))
            searches: dict[str, Latency] = {}
            for done, system in enumerate(SYSTEMS, 1):
                asked = new_questions(queries, memories, calls, what=system.name)
                searches[system.name] = await _timed(lambda query, name=system.name: searched(name, query), asked)
                progress.advanced(done)
            asking = Asking(sources=opened.sources, newest={TENANT: NOW})
            recalls: dict[str, Latency] = {}
            for done, profile in enumerate(profiles, len(SYSTEMS) + 1):
                asked = new_questions(queries, memories, calls, what=profile.profile)
                recalls[profile.profile] = await _timed(lambda query, of=profile: asking.recalled(query, of), asked)
                progress.advanced(done)
            for embedder in embedders:
                embedder.is_exact = True
            new = changes(synthetic_turns(memories, _NEW_TURNS, first=size))
            steps = [replace(step, position=size + place) for place, step in enumerate(new, 1)]
            stored = await _timed(
                lambda step: asyncio.gather(*(projection.apply([step]) for projection in projections)),
                steps,
                warm_up=0,
            )
            dimension = opened.embedder.dimension
        return AtSize(
            turns=size,
            searches=searches,
            recalls=recalls,
            memory_operation=stored,
            bytes_held=_bytes_held(turns, dimension),
            disk_bytes=sum(one.stat().st_blocks * 512 for one in private.data_dir.rglob("*") if one.is_file()),
        )


async def _timed(call: Callable[[T], Awaitable[object]], each: Sequence[T], *, warm_up: int = _WARM_UP) -> Latency:
    """The latency of one call after the other, without the first."""
    taken: list[float] = []
    for one in each:
        began = time.perf_counter()
        await call(one)
        taken.append((time.perf_counter() - began) * 1000)
    return percentiles_of(taken[warm_up:])


def _bytes_held(turns: Sequence[Memory], dimension: int) -> dict[str, int]:
    sparse = SparseEncoder()
    words = _WEIGHT_BYTES * sum(len(sparse.encode_document(keyword_form(turn)).indices) for turn in turns)
    vectors = _NUMBER_BYTES * dimension * len(turns)
    texts = sum(len(turn.text.encode()) for turn in turns)
    return {"like": texts, "bm25_decay": words, "vector": vectors, "rrf": words + vectors}


def synthetic_turns(memories: Sequence[Memory], count: int, *, first: int = 0) -> list[Memory]:
    """So many turns of one tenant in sessions of twenty, a minute apart, the last of `first + count` at `NOW`."""
    made: list[Memory] = []
    for number in range(first, first + count):
        chosen = random.Random(f"{_SEED}-{number}")  # noqa: S311 (no secret)
        one, other = chosen.choice(memories), chosen.choice(memories)
        begun, ended = one.text.split(), other.text.split()
        text = " ".join([*begun[: (len(begun) + 1) // 2], *ended[len(ended) // 2 :]])
        at = NOW - (first + count - 1 - number) * _SECONDS_APART
        message = MemoryV1(
            id=f"t{number}",
            text=text or "nothing",
            speaker=one.speaker,
            session_id=f"s{number // _TURNS_A_SESSION}",
            occurred_at=datetime.fromtimestamp(at, UTC),
        )
        made.append(compose(message, TENANT))
    return made


def new_questions(
    queries: Sequence[JudgedQuery], memories: Sequence[Memory], count: int, *, what: str
) -> list[JudgedQuery]:
    """So many questions that no other `what` gets: real ones with two words more, so that no cache knows them."""
    chosen = random.Random(f"{_SEED}-{what}")  # noqa: S311 (no secret)
    said = " ".join(memory.text for memory in memories[:500])
    words = sorted({word for word in said.split() if word.isalpha()}) or ["x"]
    return [
        replace(
            chosen.choice(queries),
            id=f"{what}-{number}",
            conversation=TENANT,
            text=f"{chosen.choice(queries).text.rstrip('?')} {chosen.choice(words)} {chosen.choice(words)}?",
            asked_at=NOW,
            scope=None,
            session_id=None,
            user_id=None,
        )
        for number in range(count)
    ]


def quality_table(found: Sequence[Quality]) -> TextTable:
    """A row for each system and profile."""
    rows = [(one.label, *(_share(one.means[name]) for name in MEASURES)) for one in found]
    return TextTable(f"Quality over {found[0].queries:,} judged queries", ("system", *MEASURES), rows)


def comparative_table(found: Sequence[Quality], sizes: Sequence[AtSize]) -> TextTable:
    """The criteria that are measured, a column for each system and profile.

    Latency and memory are those at 1,000 turns, or else at the largest size that was measured.
    """
    at = next((one for one in sizes if one.turns == _COMPARED_AT), sizes[-1] if sizes else None)
    rows: list[tuple[str, ...]] = []
    if at is not None:
        latencies = {**at.searches, **at.recalls}
        rows += [
            (
                f"latency {label}, {at.turns:,} turns",
                *(f"{_number(latencies[one.name][label.lower()])} ms" for one in found),
            )
            for label in ("P50", "P95", "P99")
        ]
        rows.append(("held per 1,000 turns", *(_held(one.name, at) for one in found)))
    rows.append(("recall@5, temporal questions", *(_share(one.temporal) for one in found)))
    rows.append(("recall@5, no word in common", *(_share(one.other_words) for one in found)))
    rows.append(("recall@5, all questions", *(_share(one.means["recall@5"]) for one in found)))
    return TextTable("Comparative analysis", ("criterion", *(one.label for one in found)), rows)


def scaling_table(sizes: Sequence[AtSize]) -> TextTable:
    """P95 at each size in milliseconds, and beside a target whether it is met."""
    heads = [
        label if target is None else f"{label} (target {target:g} ms)" for label, _, target in _timings(sizes[0])
    ]
    rows = [
        (
            f"{one.turns:,}",
            *(
                f"{_number(latency['p95'])} ms{', missed' if target and latency['p95'] > target else ''}"
                for _, latency, target in _timings(one)
            ),
        )
        for one in sizes
    ]
    return TextTable("Scaling projections (P95)", ("turns", *heads), rows)


def misses(sizes: Sequence[AtSize]) -> Mapping[str, Sequence[int]]:
    """The sizes at which a P95 is above its target, by what was measured."""
    found: dict[str, list[int]] = {}
    for one in sizes:
        for label, latency, target in _timings(one):
            if target is not None and latency["p95"] > target:
                found.setdefault(label, []).append(one.turns)
    return found


def _timings(at: AtSize) -> list[tuple[str, Latency, float | None]]:
    """What was timed at a size: its label, its latency and its target."""
    timed: list[tuple[str, Latency, float | None]] = [
        (system.label, at.searches[system.name], system.target_ms) for system in SYSTEMS
    ]
    timed += [(f"{name}, whole recall", latency, PIPELINE_MS) for name, latency in at.recalls.items()]
    return [*timed, ("one turn stored", at.memory_operation, MEMORY_OPERATION_MS)]


def _number(ms: float) -> str:
    return f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def _held(name: str, at: AtSize) -> str:
    held = at.bytes_held.get(name)
    kilobytes = (at.disk_bytes if held is None else held) / at.turns  # bytes a turn are kB a thousand
    return f"{kilobytes:,.0f} kB{' on disk' if held is None else ''}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}".removeprefix("0") if value < 1 else "1.000"
