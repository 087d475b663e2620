"""The judged sentences of `tests/data/relations`, and how well extracted statements agree with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orion_recall.graph.relation_words import SYMMETRIC

Edge = tuple[str, str, str]
_FOLDER = Path(__file__).parents[1] / "data" / "relations"
# Two names for one relation, read from its other end.
_INVERSE = {
    "belongs to": "owns", "owned by": "owns", "led by": "leads", "managed by": "manages",
    "succeeded by": "succeeded", "founded by": "founded", "conducted by": "conducts",
}  # fmt: skip
_SAME_WAY = {"owner of": "owns", "founder of": "founded", "successor of": "succeeded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A text, who says it, the statements that it makes, and those that it may be read to make.

    `no_names` are words of it that name nobody and nothing.
    """

    text: str
    speaker: str
    statements: tuple[Edge, ...]
    also: tuple[Edge, ...]
    no_names: frozenset[str]


@dataclass(slots=True)
class Agreement:
    """How many statements were found, wrong and missed, with the text of the wrong and missed ones."""

    found: int = 0
    wrong: list[tuple[str, Edge]] = field(default_factory=list[tuple[str, Edge]])
    missed: list[tuple[str, Edge]] = field(default_factory=list[tuple[str, Edge]])

    @property
    def precision(self) -> float:
        return self.found / (self.found + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.found / (self.found + len(self.missed))

    def add(self, judged: Judged, stated: Iterable[Edge]) -> None:
        """Counts what was stated of one text."""
        told = {_one_way(edge) for edge in stated}
        expected = {_one_way(edge) for edge in judged.statements}
        self.found += len(expected & told)
        self.missed += [(judged.text, edge) for edge in sorted(expected - told)]
        self.wrong += [(judged.text, edge) for edge in sorted(told - expected - set(map(_one_way, judged.also)))]


def judged_sentences(file: str) -> Sequence[Judged]:
    """The judged sentences of one file."""
    rows = [json.loads(line) for line in (_FOLDER / f"{file}.jsonl").read_text("utf-8").splitlines()]
    return [
        Judged(
            text=" ".join(filter(None, (row.get("before"), row["text"]))),
            speaker=row["speaker"],
            statements=tuple(tuple(edge) for edge in row["statements"]),
            also=tuple(tuple(edge) for edge in row.get("also", ())),
            no_names=frozenset(row.get("no_names", ())),
        )
        for row in rows
    ]


def _one_way(edge: Edge) -> Edge:
    """The edge in the one direction and by the one name that equal statements share."""
    subject, relation, target = edge
    if relation in _SAME_WAY:
        relation = _SAME_WAY[relation]
    elif relation in _INVERSE:
        subject, relation, target = target, _INVERSE[relation], subject
    if relation in SYMMETRIC and subject > target:
        subject, target = target, subject
    return subject, relation, target
