"""Learns the weights of the probability that anything answers, from runs: logistic regression with L2.

Every weight is 0 or more: a signal that something answers never speaks against it,
whatever one collection says. Of each run answerable and unanswerable queries weigh alike, and so do both over all
runs. Each conversation is held out in turn; so a collection of one conversation is held out as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import read_lines
from orion_recall.recall.confidence.answer import LATE_SIGNALS, SIGNALS, AnswerModel, Weights

Values = npt.NDArray[np.float64]

_STEPS = 20_000
_CLOSE = 1e-7
_BINS = 10


class AnswerLine(BaseModel):
    """One query of a run: whether anything answers it (None: not known), and what the recall made of it.

    `probability` is None where it could not be told, and then `answer_signals` is empty.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    query_id: str = Field(min_length=1)
    conversation_id: str = Field(min_length=1)
    selected: tuple[str, ...]
    answerable: bool | None
    probability: float | None
    answer_signals: dict[str, float]

    @property
    def stated(self) -> float:
        """The probability; where it could not be told, 1 with a bundle and 0 without one, as the caller sees it."""
        if self.probability is not None:
            return self.probability
        return 1.0 if self.selected else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The reliability over some queries. `auc` is None without both kinds of queries.

    `error` is the expected calibration error: the mean distance of probability and share, by tenths.
    """

    name: str
    answerable: int
    unanswerable: int
    auc: float | None
    error: float


def read_answer_lines(path: Path) -> Sequence[AnswerLine]:
    """The lines of queries that are known to be answerable or not. EvaluationError when there is none."""
    lines = [line for line in read_lines(AnswerLine, path) if line.answerable is not None]
    if not lines:
        raise EvaluationError(f"{path}: no query of it is known to be answerable or not")
    return lines


def reliability(name: str, lines: Sequence[AnswerLine]) -> Reliability:
    stated = np.array([line.stated for line in lines])
    labels = np.array([line.answerable for line in lines], dtype=np.bool_)
    tenths = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    inside = [tenths == tenth for tenth in range(_BINS)]
    return Reliability(
        name=name,
        answerable=int(labels.sum()),
        unanswerable=int((~labels).sum()),
        auc=auc(stated[labels], stated[~labels]),
        error=sum(float(abs(stated[one].sum() - labels[one].sum())) for one in inside) / len(lines),
    )


def auc(higher: Values, lower: Values) -> float | None:
    """The chance that one of `higher` is above one of `lower`; equal ones count half. None when one is empty."""
    if not len(higher) or not len(lower):
        return None
    order = np.sort(lower)
    below, up_to = np.searchsorted(order, higher, "left"), np.searchsorted(order, higher, "right")
    return float((below + up_to).mean() / (2 * len(order)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRun:
    """A run's lines, its name, and how much it counts."""

    name: str
    lines: Sequence[AnswerLine]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The weights learned from all runs, and the runs with the probabilities of conversations held out."""

    weights: Weights
    held_out: Sequence[WeightedRun]


def calibrate(runs: Sequence[WeightedRun], *, l2: float = 1.0, late: bool = True) -> Calibrated:
    """The weights of the signals; without `late`, those for profiles without late interaction.

    EvaluationError when no query of a kind has signals.
    """
    names = tuple(name for name in SIGNALS if late or name not in LATE_SIGNALS)
    everything = [(run, line) for run in runs for line in run.lines if line.answer_signals]
    values = np.array([[line.answer_signals[name] for name in names] for _, line in everything])
    labels = np.array([bool(line.answerable) for _, line in everything], dtype=np.float64)
    if not 0 < labels.sum() < len(labels):
        raise EvaluationError("the runs need queries that something answers and queries that nothing answers")
    counts = _counts([run for run, _ in everything], labels)
    held_out = np.zeros(len(everything))
    conversations = np.array([line.conversation_id for _, line in everything])
    for conversation in dict.fromkeys(conversations.tolist()):
        out = conversations == conversation
        if not 0 < labels[~out].sum() < (~out).sum():
            raise EvaluationError(f"without {conversation!r} there is nothing to learn from: name more runs")
        held_out[out] = _shares(_learned(values[~out], labels[~out], counts[~out], names, l2), values[out])
    held = {id(line): float(value) for (_, line), value in zip(everything, held_out, strict=True)}
    weights = _learned(values, labels, counts, names, l2)
    return Calibrated(
        weights=Weights(intercept=weights[0], signals=dict(zip(names, weights[1:], strict=True))),
        held_out=[
            replace(run, lines=[line.model_copy(update={"probability": held.get(id(line))}) for line in run.lines])
            for run in runs
        ],
    )


def _counts(runs: Sequence[WeightedRun], labels: Values) -> Values:
    names = np.array([run.name for run in runs])
    counts = np.array([run.weight for run in runs], dtype=np.float64)
    for name in dict.fromkeys(names.tolist()):
        for label in (0.0, 1.0):
            of = (names == name) & (labels == label)
            counts[of] /= max(1, of.sum())
    for label in (0.0, 1.0):
        counts[labels == label] /= counts[labels == label].sum()
    return counts * len(labels) / 2


def _learned(values: Values, labels: Values, counts: Values, names: Sequence[str], l2: float) -> list[float]:
    """Intercept and weights, by accelerated projected gradient steps over standardised signals."""
    mean, spread = np.average(values, axis=0, weights=counts), values.std(axis=0) + 1e-9
    given = np.column_stack([np.ones(len(values)), (values - mean) / spread])
    free = np.array([True, *(False for _ in names)])
    pull = np.array([0.0, *([l2] * len(names))])
    rate = 1 / (np.linalg.norm(given * np.sqrt(counts)[:, None], 2) ** 2 / 4 + l2)
    weights = ahead = np.zeros(given.shape[1])
    momentum = 1.0
    for _ in range(_STEPS):
        error = 1 / (1 + np.exp(-given @ ahead)) - labels
        stepped = ahead - rate * (given.T @ (counts * error) + pull * ahead)
        stepped = np.where(free, stepped, np.maximum(stepped, 0.0))
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = stepped + (momentum - 1) / following * (stepped - weights)
        moved = float(np.abs(stepped - weights).max())
        weights, momentum = stepped, following
        if moved < _CLOSE:
            break
    raw = weights[1:] / spread
    return [float(weights[0] - (raw * mean).sum()), *raw.tolist()]


def _shares(weights: Sequence[float], values: Values) -> Values:
    return 1 / (1 + np.exp(-(weights[0] + values @ np.array(weights[1:]))))


def as_model(late: Weights, without_late: Weights, made: dict[str, object]) -> AnswerModel:
    """The model of both kinds of profiles, with four digits after the point."""

    def rounded(of: Weights) -> Weights:
        signals = {name: round(weight, 4) for name, weight in of.signals.items()}
        return Weights(intercept=round(of.intercept, 4), signals=signals)

    return AnswerModel(late=rounded(late), without_late=rounded(without_late), made=made)
