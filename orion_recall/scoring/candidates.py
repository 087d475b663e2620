"""Candidates: memories that a source found, after fusion and after scoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orion_recall.values import MemoryView, SourceName, SuccessionLink


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


class Outdated(NamedTuple):
    """What outdates a memory: the newer one and the link to it. The older one held `until` then (epoch seconds)."""

    until: float
    link: SuccessionLink
    newer: MemoryView


@dataclass(slots=True, kw_only=True)
class ScoredCandidate:
    """A candidate with its final score in [0, 1], the score's named parts, and the weight of each part.

    The score is the mean of the parts by their weights; a weight without a part counts for nothing. `outdated` is
    there where a newer memory says something else. Nobody changes one: it is not
    frozen because each recall makes a hundred, and to make a frozen one takes four times as long.
    """

    candidate: Candidate
    memory: MemoryView
    score: float
    parts: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    outdated: Outdated | None = None
