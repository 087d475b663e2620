"""Reliability of the probability that anything answers: AUC, its curve, and what a threshold would silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orion_recall.evaluation.answers.lines import AnswerLine

_BINS = 10
MOST_SILENCED = 0.02
"""The share of answerable questions that may wrongly get no answer."""
THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The queries with a probability in [low, high): how many, their mean probability, the share answerable."""

    low: float
    high: float
    count: int
    told: float
    answerable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Silenced:
    """What a threshold silences: the share of the answerable queries, and of those that nothing answers."""

    threshold: float
    answerable: float
    unanswerable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The reliability over some queries. `auc` is None without both kinds of queries.

    `error` is the expected calibration error: the mean distance of probability and share, by bins. `at_most` is the
    highest threshold that silences no more than `MOST_SILENCED` of the answerable queries.
    """

    name: str
    answerable: int
    unanswerable: int
    auc: float | None
    error: float
    bins: Sequence[Bin]
    silenced: Sequence[Silenced]
    at_most: Silenced


def reliability(name: str, lines: Sequence[AnswerLine]) -> Reliability:
    """The reliability over the lines, at least one."""
    told = np.array([line.told for line in lines])
    labels = np.array([line.is_answerable for line in lines], dtype=np.bool_)
    bins = _bins(told, labels)
    lowest = np.sort(told[labels])
    highest = float(lowest[int(MOST_SILENCED * len(lowest))]) if len(lowest) else 1.0
    return Reliability(
        name=name,
        answerable=int(labels.sum()),
        unanswerable=int((~labels).sum()),
        auc=auc(told[labels], told[~labels]),
        error=sum(one.count * abs(one.told - one.answerable) for one in bins) / len(lines),
        bins=bins,
        silenced=[_silenced(told, labels, threshold) for threshold in THRESHOLDS],
        at_most=_silenced(told, labels, highest),
    )


def auc(higher: npt.NDArray[np.float64], lower: npt.NDArray[np.float64]) -> float | None:
    """The chance that one of `higher` is above one of `lower`; equal ones count half. None when one is empty."""
    if not len(higher) or not len(lower):
        return None
    order = np.sort(lower)
    below, up_to = np.searchsorted(order, higher, "left"), np.searchsorted(order, higher, "right")
    return float((below + up_to).mean() / (2 * len(order)))


def _bins(told: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> list[Bin]:
    places = np.minimum((told * _BINS).astype(int), _BINS - 1)
    return [
        Bin(
            low=place / _BINS,
            high=(place + 1) / _BINS,
            count=int(inside.sum()),
            told=float(told[inside].mean()),
            answerable=float(labels[inside].mean()),
        )
        for place in range(_BINS)
        if (inside := places == place).any()
    ]


def _silenced(told: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_], threshold: float) -> Silenced:
    def share(of: npt.NDArray[np.float64]) -> float:
        return float((of < threshold).mean()) if len(of) else 0.0

    return Silenced(threshold=threshold, answerable=share(told[labels]), unanswerable=share(told[~labels]))
