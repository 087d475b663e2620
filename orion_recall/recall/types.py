"""The types of a recall: `Sources`, which it uses, and `Recalled`, its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orion_recall.contracts.recall import NoAnswerV1
from orion_recall.interfaces import ChronologicalIndex, Lexicon, MemoryReader, Source, TitleFinder
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.embedder import Reranker
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.sections import Render
from orion_recall.recall.bundle.lines import Selection
from orion_recall.recall.cascade import CascadeRun
from orion_recall.recall.confidence.answer import NO_CONFIDENCE, UNSURE_NOTE, AnswerConfidence
from orion_recall.recall.pass_result import ModelReport, PassResult
from orion_recall.recall.search.all_sources import FallbackSource
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.source_specs import source_names
from orion_recall.sources.graph import StatementWeights
from orion_recall.sources.record import RecordFacts
from orion_recall.sources.several_stores import Breaker
from orion_recall.sources.vector_lexical import Closeness, FindPassages, TextVectors
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import JsonValue, Outcome, Scope, SourceName, SourceReport


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The outcome of one recall. `selection` is what was kept of the ranked.

    `clock` (epoch seconds), `timeout_s` and `read_at`, the outbox position that each copy had applied before the
    search, by kind (`index`, `graph`), are what it went by besides its query. `result` is the search pass, or all
    passes of a cascade together; None where nothing was searched. `is_unsure`: nothing clearly answers, the nearest
    are handed over; `has_note`: the rendered text says so. `metadata` is that of the bundle's memories, by key.
    """

    outcome: Outcome
    scope: Scope
    selection: Selection
    stage_ms: Mapping[str, float]
    clock: float
    timeout_s: float
    read_at: Mapping[str, int]
    understood: Understanding | None = None
    result: PassResult | None = None
    confidence: AnswerConfidence = NO_CONFIDENCE
    cascade: CascadeRun | None = None
    withheld: NoAnswerV1 | None = None
    is_unsure: bool = False
    has_note: bool = False
    strategy: str | None = None
    render: Render | None = None
    redaction: Redaction = NO_REDACTION
    metadata: Mapping[int, Mapping[str, JsonValue]] = field(default_factory=dict[int, Mapping[str, JsonValue]])

    @property
    def reports(self) -> tuple[SourceReport, ...]:
        """The reports of the sources."""
        return self.result.reports if self.result else ()

    @property
    def ranked(self) -> tuple[ScoredCandidate, ...]:
        """The order before caps and budget."""
        return self.result.ranked if self.result else ()

    @property
    def reranking(self) -> ModelReport | None:
        """The reranker's report; None where the profile has it off."""
        return self.result.reranking if self.result else None

    @property
    def late_interaction(self) -> ModelReport | None:
        """The report of late interaction; None where the profile has it off."""
        return self.result.late_interaction if self.result else None

    @property
    def rendered(self) -> str:
        """The bundle as prompt text: one bullet a line, after its note if it is unsure; "" for nothing."""
        note = (UNSURE_NOTE,) if self.has_note else ()
        return "\n".join((*note, *(item.line for item in self.selection.items if item.line)))
