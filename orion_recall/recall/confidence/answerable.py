"""The probability that anything that was found answers the question: logistic regression over `signals`.

The weights are data, in `answer_model.json` beside this module: what they were learned from stands there, too.
`orion-recall eval calibrate` learns them again from runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from orion_recall.recall.confidence.signals import asked_about, nearest_items, signals, speaks_otherwise
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.search.fallback import SILENT
from orion_recall.recall.understand.question import Understanding
from orion_recall.values import SourceName

MODEL_FILE = Path(__file__).with_name("answer_model.json")
_DIGITS = 6
_LEAST_LOGIT = -700.0
_NEEDED: tuple[SourceName, ...] = ("vector", "lexical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The intercept and the weight of each signal, in logits."""

    intercept: float
    signals: Mapping[str, float]

    def probability(self, of: Mapping[str, float]) -> float:
        """The probability for these signals, rounded to 1e-6."""
        logit = self.intercept + sum(weight * of[name] for name, weight in self.signals.items())
        return round(1 / (1 + math.exp(-logit)) if logit > _LEAST_LOGIT else 0.0, _DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerModel:
    """The weights with late interaction and without; `made` says what they were learned from."""

    late: Weights
    without_late: Weights
    made: Mapping[str, object] = field(default_factory=dict[str, object])

    def probability(self, of: Mapping[str, float]) -> float:
        """The probability for these signals."""
        return (self.late if "late" in of else self.without_late).probability(of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerable:
    """The probability that anything answers, and the signals it is made of.

    None, without signals, where it cannot be told: a question that only names people or a time has no words that a
    memory could lack, nor has a memory in another language; and without the index there is nothing to compare.
    """

    probability: float | None = None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


NOT_JUDGED = Answerable()


@cache
def answer_model() -> AnswerModel:
    """The model that is shipped."""
    read = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    return AnswerModel(
        late=Weights(**read["late"]), without_late=Weights(**read["without_late"]), made=read["made"]
    )


def answerable(understood: Understanding, result: PassResult) -> Answerable:
    """Whether anything that the pass found answers the question."""
    if not result.scored or any(
        report.source in _NEEDED and report.status in ("off", *SILENT) for report in result.reports
    ):
        return NOT_JUDGED
    said = understood.said_by
    if said is not None and said.is_strict and not said.topic:  # whatever that person said answers
        return NOT_JUDGED
    if (asked := asked_about(understood)).is_open:
        return NOT_JUDGED
    near = nearest_items(result)
    if speaks_otherwise(understood, asked, near[0]):
        return NOT_JUDGED
    found = {name: round(value, _DIGITS) for name, value in signals(understood, asked, result, near).items()}
    return Answerable(probability=answer_model().probability(found), signals=found)
