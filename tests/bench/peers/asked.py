"""Systems as the bench asks them, ours and others alike: questions in flight, and those of the golden set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

from orion_recall.evaluation.dataset import JudgedQuery, RunLine, read_memories, read_queries
from orion_recall.evaluation.measures import Mean, Wanted, judged, measure, score
from orion_recall.values import Memory
from tests.bench.measure import percentile

K = 10
"""Memories asked for."""
_GOLDEN = Path(__file__).parents[2] / "data" / "golden"
_DEPTHS = (5, 10)


class CannotMeasure(Exception):
    """The system cannot be opened, or failed; it is left out, and the report gives the message as the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One cell: `cpu_ms` is CPU per answered question by all processes of the system, its client among them."""

    in_flight: int
    asked: int
    unanswered: int
    p50_ms: float
    p95_ms: float
    per_s: float
    cpu_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the table says of a system before it was measured; `fill_s` is until all memories can be found."""

    name: str
    shown: str
    way: str
    versions: Mapping[str, str]
    fill_s: float


class System(Protocol):
    """A system with its memories."""

    @property
    def about(self) -> About:
        """Its name, versions and how long it took to fill."""
        ...

    async def cell(self, in_flight: int, seconds: float) -> Figures:
        """Questions in the corpus's order with so many under way at any time, after a few that do not count."""
        ...

    def memory_mib(self) -> float:
        """What its processes hold now, without the client where that is a process of its own."""
        ...

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        """Stores one conversation apart from everything else."""
        ...

    async def ranked(self, query: JudgedQuery) -> list[str]:
        """The best ten of the conversation that was stored last, best first."""
        ...


def figures(taken_s: Sequence[float | None], *, in_flight: int, passed_s: float, cpu_s: float) -> Figures:
    """From the seconds of every question, None for one that failed. CannotMeasure when all of them did."""
    answered = [taken for taken in taken_s if taken is not None]
    if not answered:
        raise CannotMeasure("no question was answered")
    return Figures(
        in_flight=in_flight,
        asked=len(taken_s),
        unanswered=len(taken_s) - len(answered),
        p50_ms=percentile(answered, 0.5) * 1000,
        p95_ms=percentile(answered, 0.95) * 1000,
        per_s=len(answered) / passed_s,
        cpu_ms=cpu_s * 1000 / len(answered),
    )


class Questions:
    """The same endless questions for every system, in the same order: what a cell has not used goes to the next."""

    def __init__(self, source: Iterator[str]) -> None:
        self._source = source
        self._next: list[str] = []

    def coming(self, count: int) -> list[str]:
        """The next ones, without taking them."""
        self._next += itertools.islice(self._source, max(0, count - len(self._next)))
        return self._next[:count]

    def used(self, count: int) -> None:
        """So many of them were asked."""
        del self._next[:count]


async def recall_on(system: System) -> dict[int, Mean]:
    """Recall by depth on tests/data/golden, with its 95 % interval.

    Each conversation is stored apart, and asked for ten memories.
    """
    queries, run = judged(read_queries(_GOLDEN / "queries.jsonl")), dict[str, RunLine]()
    by_conversation = sorted(read_memories(_GOLDEN / "memories.jsonl"), key=lambda one: one.tenant)
    for conversation, memories in groupby(by_conversation, key=lambda one: one.tenant):
        await system.fill_conversation(list(memories))
        for query in queries:
            if query.conversation == conversation:
                run[query.id] = RunLine(ranked=tuple(await system.ranked(query)), selected=None, line=0)
    scores, _ = score(measure(run, queries, Wanted(depths=_DEPTHS)))
    return {depth: scores.means[f"recall@{depth}"] for depth in _DEPTHS}
