"""Candidates: memories that a source found, after fusion and after scoring; and the facts that score parts use."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orion_recall.values import NO_TIME, LedBy, MemoryView, QuestionTime, SourceName, SuccessionLink


@dataclass(slots=True, kw_only=True)
class Candidate:
    """One memory after fusion: its rank in every source (from 1, equal scores share one) and fused score.
    `is_kept`: it is ranked in full, however many have a better one. `source_ref` is what the best source's hit
    says."""

    key: int
    fused: float = 0.0
    ranks: dict[SourceName, int] = field(default_factory=dict[SourceName, int])
    scores: dict[SourceName, float] = field(default_factory=dict[SourceName, float])
    read: Callable[[], MemoryView] | None = None
    statements: tuple[str, ...] = ()
    path: float = 0.0
    best_source: SourceName = "vector"
    source_ref: str | None = None
    is_kept: bool = False
    led_by: LedBy | None = None


class PartsInColumns(Mapping[str, float]):
    """The parts of one candidate by name, read from the columns of all. Few candidates are asked for theirs: a
    dictionary for each would cost as much as to score them."""

    def __init__(self, columns: Mapping[str, Sequence[float | None]], place: int) -> None:
        self._columns, self._place = columns, place

    def __getitem__(self, name: str) -> float:
        return self._row[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __repr__(self) -> str:
        return repr(self._row)

    def items(self) -> ItemsView[str, float]:
        """Names and parts; those of a Mapping would ask for each part by its name."""
        return self._row.items()

    def get(self, name: str, default: Any = None) -> Any:
        """The part, or the default; it makes no row of all parts."""
        if (column := self._columns.get(name)) is None or (part := column[self._place]) is None or part != part:
            return default
        return part

    @cached_property
    def rounded(self) -> dict[str, float]:
        """The parts, each to 1e-6: reply and decision show the same ones."""
        return {name: round(value, 6) for name, value in self._row.items()}

    @cached_property
    def _row(self) -> dict[str, float]:
        place, columns = self._place, self._columns.items()
        # NaN is no part
        return {name: part for name, column in columns if (part := column[place]) is not None and part == part}


def rounded_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """The parts by name, each to 1e-6."""
    if isinstance(parts, PartsInColumns):
        return parts.rounded
    return {name: round(value, 6) for name, value in parts.items()}


@dataclass(slots=True, kw_only=True)
class ScoredCandidate:
    """A candidate with its final score in [0, 1], the score's named parts, and the weight of each part.

    The score is the mean of the parts by their weights; a weight without a part counts for nothing. `same` say the
    same words, of other speakers or days. `ended` is the link to its successor; with `succeeds` its score and parts
    are those of that older memory. Only `recall.successors` changes one; a frozen one takes four times as long to
    make.
    """

    candidate: Candidate
    memory: MemoryView
    score: float
    parts: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    same: tuple[ScoredCandidate, ...] = ()
    ended: SuccessionLink | None = None
    succeeds: SuccessionLink | None = None


Pair = tuple[Candidate, MemoryView]
Column = Sequence[float | None]
"""One part of every candidate, in their order; None for a candidate without this part."""

UNDATED_RECENCY = 0.5
READ_CHARS = 2000
"""Characters of a text that are read for an answer, a few more than are embedded."""
_NO_KEYS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """Facts of a query and its searches for the score parts; mappings are by memory key.

    `asker` is the speaker who asks, where the question is in the first person; `is_own`: it is, and asks for nobody
    else's words. `similarities` are the cosines of all hits of the dense search, candidate or not, `followed` the
    parts of the follow-up search by name. `unindexed` are memories that the index does not hold: where it alone
    could give a part, these have none. Texts of those in `told_unknown` were not read for told times. `terms` are
    stems, `identifiers` numbers and single letters, `evidence` is how often memories' statements are stated.
    """

    now: float
    named_speaker: str | None = None
    asker: str | None = None
    is_own: bool = False
    similarities: Mapping[int, float] = field(default_factory=dict[int, float])
    time: QuestionTime = NO_TIME
    session_id: str | None = None
    late: Mapping[int, float] = field(default_factory=dict[int, float])
    followed: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    unindexed: frozenset[int] = _NO_KEYS
    told_unknown: frozenset[int] = _NO_KEYS
    entities: tuple[str, ...] = ()
    terms: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])


def recency(ts: float | None, now: float, *, half_life_hours: float, minimum: float) -> float:
    """0.5 ^ (age / half-life), never below the minimum (`recency_floor`); 0.5 when undated, 1 for the future."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(minimum, 0.5 ** (age_hours / half_life_hours))


def share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)
