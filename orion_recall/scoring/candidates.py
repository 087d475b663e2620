"""Candidates: memories that a source found, after fusion and after scoring."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orion_recall.values import LedBy, MemoryView, SourceName, SuccessionLink


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
    led_by: LedBy | None = None


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
    those of other speakers or days that say the same words. `ended` is the link to its successor; with `succeeds`
    its score and parts are those of that older memory. Nobody but `recall.successors` changes one: it is not frozen
    because each recall makes a hundred, and to make a frozen one takes four times as long.
    """

    candidate: Candidate
    memory: MemoryView
    score: float
    parts: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    same: tuple[ScoredCandidate, ...] = ()
    ended: SuccessionLink | None = None
    succeeds: SuccessionLink | None = None
