"""Candidates: memories that a source found, after fusion and after scoring."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from orion_recall.values import MemoryView, SourceName, SuccessionLink

LedBy = Literal["", "succession", "follow_up", "period"]
"""What led to a candidate that no search found: a memory that it succeeds or precedes, the first hits, a recap."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    """One memory after fusion: its rank in every source (from 1, equal scores share one) and fused score.

    `source_ref` is what the best source's hit says of where it is from. `is_kept`: it is ranked in full, however
    many candidates have a better fused score.
    """

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
    led_by: LedBy = ""


SURE = 0.95
"""The confidence of a recognised succession from which the bundle says "until" without "perhaps"."""


class Outdated(NamedTuple):
    """What is taken as replacing a memory: the newer one and the link to it.

    The older one held `until` then (epoch seconds), `or_earlier` where the newer one tells of a time before, or of
    none that is sure.
    """

    until: float
    link: SuccessionLink
    newer: MemoryView
    or_earlier: bool = False

    @property
    def is_perhaps(self) -> bool:
        """Whether it is only likely: recognised with less confidence than is nearly always right."""
        return self.link.by != "hand" and self.link.confidence < SURE


ValueAsked = Literal["time", "amount", "number"]
"""The types of value for which a newer memory that tells another one is preferred."""


class NewerThan(NamedTuple):
    """The older memory, by key and id, that a memory was put before, or nearer to, though no succession is known.

    `how`: a likeness of the two was noted when they were stored, both are alike in this ranking, or the newer one
    tells another value of the type that is asked for, or a change while the question asks about now.
    """

    key: int
    id: str
    how: Literal["noted", "alike", "news"] | ValueAsked


class PartsInColumns(Mapping[str, float]):
    """The parts of one candidate by name, read from the columns of all; a part that it does not have is left out.

    Few candidates are asked for theirs: a dictionary for each would cost as much as to score them.
    """

    __slots__ = ("_columns", "_made", "_place", "_rounded")

    def __init__(self, columns: Mapping[str, Sequence[float | None]], place: int) -> None:
        self._columns, self._place = columns, place
        self._made: dict[str, float] | None = None
        self._rounded: dict[str, float] | None = None

    def __getitem__(self, name: str) -> float:
        return self._row()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row())

    def __len__(self) -> int:
        return len(self._row())

    def __repr__(self) -> str:
        return repr(self._row())

    def items(self) -> ItemsView[str, float]:
        """Names and parts; those of a Mapping would ask for each part by its name."""
        return self._row().items()

    def get(self, name: str, default: Any = None) -> Any:
        """The part, or the default; it makes no row of all parts."""
        if (column := self._columns.get(name)) is None or (part := column[self._place]) is None or part != part:
            return default
        return part

    @property
    def rounded(self) -> dict[str, float]:
        """The parts, each to 1e-6: reply and decision show the same ones."""
        if (rounded := self._rounded) is None:
            rounded = self._rounded = _rounded(self._row())
        return rounded

    def _row(self) -> dict[str, float]:
        if (made := self._made) is None:
            place = self._place
            made = self._made = {
                name: part
                for name, column in self._columns.items()
                if (part := column[place]) is not None and part == part  # NaN is no part
            }
        return made


def rounded_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """The parts by name, each to 1e-6."""
    return parts.rounded if isinstance(parts, PartsInColumns) else _rounded(parts)


def _rounded(parts: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in parts.items()}


@dataclass(slots=True, kw_only=True)
class ScoredCandidate:
    """A candidate with its final score in [0, 1], the score's named parts, and the weight of each part.

    The score is the mean of the parts by their weights; a weight without a part counts for nothing. `same` are
    those of other speakers or days that say the same words. `outdated` is
    there where a newer memory says something else; `newer_than` is why it has moved, where that is no succession.
    Nobody changes one: it is not frozen because each recall makes a hundred, and to make a frozen one takes four
    times as long.
    """

    candidate: Candidate
    memory: MemoryView
    score: float
    parts: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    same: tuple[ScoredCandidate, ...] = ()
    outdated: Outdated | None = None
    newer_than: NewerThan | None = None
