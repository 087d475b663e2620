"""What a worker and the process of its index tell each other."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from orion_recall.index.metadata import IndexMetadata
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights

Scored = list[tuple[int, float]]
Target = Literal["live", "build"]
"""The index in use, or the complete build that is about to replace it."""


class Packed(NamedTuple):
    """Keys and scores in columns: to pickle and read a list of pairs takes four times as long."""

    keys: bytes
    scores: bytes

    @classmethod
    def of(cls, scored: Iterable[tuple[int, float]]) -> Packed:
        """The pairs, in their order; keys have 63 bits."""
        pairs = [*scored]
        keys, scores = [key for key, _ in pairs], [score for _, score in pairs]
        return cls(array("q", keys).tobytes(), array("d", scores).tobytes())

    def pairs(self) -> Scored:
        """The pairs again."""
        return list(zip(array("q", self.keys), array("d", self.scores), strict=True))


class Opening(NamedTuple):
    """The worker's first frame: how the index is opened. `identity` is that of the database it is a copy of."""

    settings: Settings
    keywords: KeywordWeights
    identity: str | None


class Call(NamedTuple):
    """A method of an index to call."""

    number: int
    target: Target
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class Calls(NamedTuple):
    """Calls to answer together, in their order: some reads, or one call that takes long."""

    calls: Sequence[Call]
    are_reads: bool


class Foreground(NamedTuple):
    """Whether the worker answers queries now: background work yields to them."""

    is_active: bool


@dataclass(frozen=True, slots=True)
class IndexState:
    """What a worker knows of its index without asking. `has` are fields in which some memory has a value."""

    metadata: IndexMetadata | None = None
    has: frozenset[str] = frozenset()


class Answer(NamedTuple):
    """What a call gave, or the error that it raised."""

    number: int
    value: Any
    error: BaseException | None = None


class Answers(NamedTuple):
    """The answers of one frame of calls, and the states that are not as they were told last."""

    answers: Sequence[Answer]
    are_reads: bool
    states: Sequence[tuple[Target, IndexState]]


class Logged(NamedTuple):
    """A line of the index's log."""

    logger: str
    level: int
    text: str
