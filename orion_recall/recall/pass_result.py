"""The result of one search pass: reports, candidates, ranking, counts of dropped candidates; and stage times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orion_recall.recall.bundle.lines import DropReason
from orion_recall.recall.candidates.fuse import Fusing
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import MemoryView, SourceReport, SourceStatus

Pairs = Sequence[tuple[Candidate, MemoryView]]


class Drop(NamedTuple):
    """The reason for dropping a candidate, and the key of the memory that was kept in its place, if any."""

    reason: DropReason
    for_key: int | None = None


class Dropped(Counter[DropReason]):
    """The number of dropped candidates by reason; `each` has the reason of those noted by their key."""

    def __init__(self) -> None:
        super().__init__()
        self.each: dict[int, Drop] = {}

    def note(self, reason: DropReason, key: int, *, for_key: int | None = None) -> None:
        """Count one candidate."""
        self[reason] += 1
        self.each[key] = Drop(reason, for_key)

    def others(self, reason: DropReason, found: Pairs, kept: Pairs) -> Pairs:
        """The candidates kept; the others of those found are noted."""
        keys = {candidate.key for candidate, _ in kept}
        for candidate, _ in found:
            if candidate.key not in keys:
                self.note(reason, candidate.key)
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The report of a model, where the profile has it on: memories compared, milliseconds, any error, and the keys
    that a reranker judged. `off`: embedder or index do not offer late interaction."""

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None
    judged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """One search pass, before caps and budget.

    `within` are the further lists. `pool` are the fused candidates, `scored` those that may be shown, `ranked`
    those without near-duplicates and too low scores; the last two are best first. `closeness` is late interaction
    as it was measured, by key. `asked` is the question as it was searched for: with a wider time than it names
    where nothing was found in that."""

    reports: tuple[SourceReport, ...]
    within: tuple[SourceReport, ...]
    pool: Sequence[Candidate]
    memories: Mapping[int, MemoryView]
    scored: Sequence[ScoredCandidate]
    ranked: tuple[ScoredCandidate, ...]
    dropped: Dropped
    reranking: ModelReport | None = None
    late_interaction: ModelReport | None = None
    closeness: Mapping[int, float] = field(default_factory=dict[int, float])
    asked: Understanding | None = None
    fusing: Fusing | None = None

    @property
    def keys(self) -> set[int]:
        """The keys of all hits."""
        return {hit[0] for report in (*self.reports, *self.within) for hit in report.hits}

    @property
    def repeated(self) -> set[int]:
        """The keys of memories that others repeat in the same words."""
        said_again = {drop.for_key for drop in self.dropped.each.values() if drop.for_key is not None}
        return said_again.union(item.candidate.key for item in self.ranked if item.same)


class StageTimes:
    """Milliseconds of every stage, in order."""

    __slots__ = ("_began", "_last", "ms")

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.ms: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the recall began."""
        return time.perf_counter() - self._began

    def done(self, stage: str) -> None:
        """End a stage, which may have several parts; the next one begins now."""
        now = time.perf_counter()
        self.ms[stage] = round(self.ms.get(stage, 0.0) + (now - self._last) * 1000, 3)
        self._last = now
