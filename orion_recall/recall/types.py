"""The types of a recall: `Sources`, which it uses, the `Pool` that a search pass takes through its stages, and what
comes of it: `PassResult`, with counts of dropped candidates, and stage times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple

from orion_recall.contracts import RecallQueryV1
from orion_recall.interfaces import (
    ChronologicalIndex,
    Lexicon,
    MemoryReader,
    Source,
    StatementWeights,
    TitleFinder,
)
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.embedder import Reranker
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.profile.sections import section_values
from orion_recall.recall.bundle.select import DropReason
from orion_recall.recall.search.requests import NO_OPTIONS, TimeLimits
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.source_specs import source_names
from orion_recall.sources.record import RecordFacts
from orion_recall.sources.several_stores import Breaker
from orion_recall.sources.vector_lexical import Closeness, FindPassages, TextVectors
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import MemoryView, Question, Scope, SearchRequest, SourceName, SourceReport, SourceStatus

Pairs = Sequence[tuple[Candidate, MemoryView]]
Requests = Mapping[SourceName, SearchRequest]
Memories = Mapping[int, MemoryView]
Method = Literal["rrf", "min_max", "bm25_decay"]
MOST_OF_PERIOD: Final = 200
"""Memories of a period that are candidates, the newest ones."""
REPORTS_WEIGHT = 0.5
"""The weight in the fusion of a list of reports, where the person's own turns have 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackSource:
    """The source that is searched while the index is away, and its breaker."""

    source: Source
    breaker: Breaker = field(default_factory=Breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The retrieval sources by name, and the readers and models that a recall uses.

    Memories are read by the first of the `readers` that answers. `fallback` is searched while the index is away.
    `texts` compares the question with memories that the index does not hold. `has_external`: hits of any
    recall may come from external stores; else its candidates keep no room for unindexed memories, unless a source
    of another package is searched. `redaction` is that of what is
    shown."""

    by_name: Mapping[SourceName, Source]
    tokens: TokenCounter
    readers: tuple[MemoryReader, ...] = ()
    lexicon: Lexicon | None = None
    titles: TitleFinder | None = None
    chronological: ChronologicalIndex | None = None
    fallback: FallbackSource | None = None
    breakers: Mapping[SourceName, Breaker] = field(
        default_factory=lambda: {name: Breaker() for name in source_names()}
    )
    reranker: Reranker | None = None
    rerank_breaker: Breaker = field(default_factory=Breaker)
    late_interaction: Closeness | None = None
    late_breaker: Breaker = field(default_factory=Breaker)
    passages: FindPassages | None = None
    texts: TextVectors | None = None
    record_facts: RecordFacts | None = None
    has_external: bool = True
    tombstones: Tombstones = field(default_factory=Tombstones)
    redaction: Redaction = NO_REDACTION
    evidence: StatementWeights | None = None


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
class Fusing:
    """The parameters of fusion. Further lists have the weight `within_weight`, flat ones `told_weight`."""

    method: Method
    weights: Mapping[SourceName, float]
    k: int = 60
    within_weight: float = 0.0
    told_weight: float = 0.0


@dataclass(slots=True, kw_only=True)
class PassResult:
    """One search pass, before caps and budget: its stages fill it in.

    `within` are the further lists. `pool` are the fused candidates, `scored` those that may be shown, `ranked`
    those without near-duplicates and too low scores; the last two are best first. `closeness` is late interaction
    as it was measured, by key. `asked` is the question as it was searched for: with a wider time than it names
    where nothing was found in that."""

    reports: tuple[SourceReport, ...] = ()
    within: tuple[SourceReport, ...] = ()
    pool: Sequence[Candidate] = ()
    memories: Mapping[int, MemoryView] = field(default_factory=dict[int, MemoryView])
    scored: Sequence[ScoredCandidate] = ()
    ranked: tuple[ScoredCandidate, ...] = ()
    dropped: Dropped = field(default_factory=Dropped)
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


@dataclass(kw_only=True)
class Pool:
    """What one pass over the profile's sources in one scope asks, and what its stages have found so far.

    `applied_position` is the tombstones' position from before the search; the hits of passes that are `given` are
    ranked without one. `listed` are the keys of a period. The index `is_away` when it was asked and did not answer.
    `candidates` are fused, `kept` those of them that may be shown, with their memories. By key: `similarities` are
    the cosines of the dense search, `followed` the parts of the follow-up search, `unindexed` what the index does
    not hold. `found` becomes the result.
    """

    query: RecallQueryV1
    understood: Understanding
    profile: Profile
    scope: Scope
    sources: Sources
    applied_position: float
    limits: TimeLimits
    times: StageTimes
    requests: Requests
    given: PassResult | None = None

    is_away: bool = False
    listed: Sequence[int] = ()
    candidates: Sequence[Candidate] = ()
    kept: Pairs = ()
    told_unknown: frozenset[int] = frozenset()
    similarities: Mapping[int, float] = field(default_factory=dict[int, float])
    unindexed: frozenset[int] = frozenset()
    followed: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    further: Sequence[Candidate] = ()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])
    found: PassResult = field(default_factory=PassResult)

    @cached_property
    def question(self) -> Question:
        return self.understood.question

    @cached_property
    def is_recap(self) -> bool:
        return self.understood.is_recap

    @cached_property
    def most(self) -> int:
        """How many candidates are ranked in full."""
        wanted = (self.query.options or NO_OPTIONS).k or self.profile.max_total_items
        return max(self.profile.rank_pool, wanted, MOST_OF_PERIOD if self.is_recap else 0)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.limits.pass_s - self.times.seconds

    @property
    def source_left_s(self) -> float:
        """Seconds that one further call of a source may take."""
        return min(self.limits.source_s, self.left_s)

    @cached_property
    def fusing(self) -> Fusing:
        fusion, time = self.profile.fusion, self.profile.time
        weights: Mapping[SourceName, float] = section_values(fusion.weights)  # pyright: ignore[reportAssignmentType]
        of_past = time.weight_of_search(of_past=self.question.time.is_past(self.question.now))
        return Fusing(
            method=fusion.method,
            k=fusion.k,
            weights=weights,
            within_weight=max(of_past, REPORTS_WEIGHT * self.understood.is_said_by),
            told_weight=time.told_search_weight,
        )
