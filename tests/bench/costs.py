"""CPU costs by question, and figures computed from them: milliseconds, and shares of an embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.cpu_clock import CONFIDENCE, UNDERSTANDING
from tests.bench.measure import percentile

TARGET = 1.0
"""The target for the median cost of the added ranking features, in embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """One question: CPU milliseconds of one embedding of it, and of each stage of its recall."""

    embedding_ms: float
    stages_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One question: CPU milliseconds of an embedding of it, and of its recall with and without what was added."""

    embedding_ms: float
    with_ms: float
    without_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """CPU of something over all questions, and its share of the same question's embedding."""

    name: str
    median_ms: float
    p95_ms: float
    median_share: float
    p95_share: float

    @classmethod
    def of(cls, name: str, spent_ms: Sequence[float], embeddings_ms: Sequence[float]) -> Figure:
        """Of one value a question."""
        each = [spent / unit for spent, unit in zip(spent_ms, embeddings_ms, strict=True)]
        return cls(
            name=name,
            median_ms=percentile(spent_ms, 0.5),
            p95_ms=percentile(spent_ms, 0.95),
            median_share=percentile(each, 0.5),
            p95_share=percentile(each, 0.95),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Of something that is worked out for each question: the median, and where nine in ten of them lie."""

    name: str
    median: float
    p05: float
    p95: float
    target: float | None = None

    @classmethod
    def of(cls, name: str, values: Sequence[float], target: float | None = None) -> Ratio:
        """Of one value a question."""
        low, middle, high = (percentile(values, share) for share in (0.05, 0.5, 0.95))
        return cls(name=name, median=middle, p05=low, p95=high, target=target)

    @property
    def reached(self) -> bool | None:
        """None without a target."""
        return None if self.target is None else self.median <= self.target


def stage_figures(asked: Sequence[Clocked], stages: Mapping[str, str]) -> list[Figure]:
    """A figure for each of the stages that any question needed, in their order, by the name given to it."""
    units = [one.embedding_ms for one in asked]
    return [
        Figure.of(name, [one.stages_ms.get(stage, 0.0) for one in asked], units)
        for stage, name in stages.items()
        if any(one.stages_ms.get(stage) for one in asked)
    ]


def whole_figure(asked: Sequence[Clocked], name: str) -> Figure:
    """All the stages of each question together."""
    units = [one.embedding_ms for one in asked]
    return Figure.of(name, [sum(one.stages_ms.values()) for one in asked], units)


def added(compared: Sequence[Compared], clocked: Sequence[Clocked]) -> list[Ratio]:
    """What was added, question by question; `clocked` are the same questions by the same profile.

    Understanding and confidence cannot be switched off: the last figure counts all of them as added.
    """
    of_recall = [one.with_ms / one.without_ms for one in compared]
    share = [(one.with_ms - one.without_ms) / one.embedding_ms for one in compared]
    always = [
        sum(one.stages_ms.get(name, 0.0) for name in (UNDERSTANDING, CONFIDENCE)) / one.embedding_ms
        for one in clocked
    ]
    every = [one + other for one, other in zip(share, always, strict=True)]
    return [
        Ratio.of("the recall / the recall without what was added", of_recall),
        Ratio.of("what was added / an embedding", share, TARGET),
        Ratio.of("the same with all of understanding and confidence / an embedding", every, TARGET),
    ]
