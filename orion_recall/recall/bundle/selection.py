"""The selection: the items of a bundle, and why the other candidates are not in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from orion_recall.scoring.candidates import ScoredCandidate

DropReason = Literal[
    "excluded",
    "own_turn",
    "filtered",
    "deleted",
    "missing",
    "other_time",
    "not_said_by",
    "other_people",
    "rank_pool",
    "below_min_score",
    "near_duplicate",
    "superseded",
    "instructs_reader",
    "source_top_k",
    "max_per_source",
    "repetition",
    "max_total_items",
    "token_budget",
    "over_fetch",
    "no_answer",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedItem:
    """A selected item: the scored candidate, its snippet and its rendered line.

    `tokens` are the line's, with the newline that follows it. `is_cut`: the snippet is not all of the memory.
    """

    scored: ScoredCandidate
    snippet: str
    line: str
    tokens: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected items in order, and the number of dropped candidates by reason.

    `left_out` has the reasons of those that were ranked and did not get into the bundle, by key.
    """

    items: tuple[SelectedItem, ...]
    tokens: int
    dropped: Mapping[DropReason, int]
    left_out: Mapping[int, DropReason] = field(default_factory=dict[int, "DropReason"])
