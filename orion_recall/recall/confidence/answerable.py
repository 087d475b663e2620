"""The probability that anything that was found answers the question: logistic regression over a few signals.

How near the nearest memory is, how far it stands out, and how much of the question's words were found. The weights
are data, in `answer_model.json` beside this module: what they were learned from stands there, too.
`orion-recall eval calibrate` learns them again from runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.search.all_sources import SILENT
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.normal import content_words, stems, words
from orion_recall.values import SourceName

SIGNALS = ("late", "late_margin", "cosine", "cosine_margin", "found", "found_in_one", "agreement")
"""The names of the signals, in the order of the model's weights."""
LATE_SIGNALS = frozenset({"late", "late_margin"})
"""The signals that there are with late interaction only."""
MODEL_FILE = Path(__file__).with_name("answer_model.json")
_READ_CHARS = 1000
_NEXT = 10
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

    None, without signals, where it cannot be told: a question that only names a time has no words that a memory
    could lack, and without the index there is nothing to compare.
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
    asked = _telling(understood)
    if not asked or understood.question.time.alone:
        return NOT_JUDGED
    found = {name: round(value, _DIGITS) for name, value in _signals(asked, result).items()}
    return Answerable(probability=answer_model().probability(found), signals=found)


def _telling(understood: Understanding) -> frozenset[str]:
    """The stems of what is asked, without stop words, words of an understood time, and whose words are wanted."""
    question, said = understood.question, understood.said_by
    if said is not None and said.is_strict:
        return stems(frozenset(content_words(said.topic)))
    timed = {word for interval in question.time.intervals for word in words(interval.words)}
    return stems(frozenset(word for word in content_words(question.text) if word not in timed))


def _signals(asked: frozenset[str], result: PassResult) -> Mapping[str, float]:
    items, closeness = result.scored, result.closeness
    candidates = [item.candidate for item in items]
    having = [
        asked & stems(frozenset(words(f"{one.speaker or ''} {one.title or ''} {one.text[:_READ_CHARS]}")))
        for one in [item.memory for item in items]
    ]
    # A word that many have says little of whether one of them answers.
    weights = {
        stem: math.log1p(len(having) / (0.5 + sum([stem in one for one in having]))) for stem in sorted(asked)
    }
    total = sum(weights.values())
    late = [closeness[one.key] for one in candidates if one.key in closeness]
    cosines = [one.scores["vector"] for one in candidates if "vector" in one.scores]
    return {
        **({"late": max(late), "late_margin": _margin(late)} if late else {}),
        "cosine": max(cosines, default=0.0),
        "cosine_margin": _margin(cosines),
        "found": sum([weights[stem] for stem in frozenset[str]().union(*having)]) / total,
        "found_in_one": max([sum([weights[stem] for stem in one]) for one in having]) / total,
        "agreement": _agreement(candidates, closeness),
    }


def _margin(values: Sequence[float]) -> float:
    """How far the best is above the mean of the next ten."""
    best, *further = sorted(values, reverse=True)[: _NEXT + 1] or [0.0]
    return best - sum(further) / len(further) if further else 0.0


def _agreement(candidates: Sequence[Candidate], closeness: Mapping[int, float]) -> float:
    """The share of pairs of late interaction, meaning and words that put the same memory first."""
    lists = [
        [(closeness[one.key], one.key) for one in candidates if one.key in closeness],
        *([(score, one.key) for one in candidates if (score := one.scores.get(name))] for name in _NEEDED),
    ]
    firsts = [max(one)[1] for one in lists if one]
    pairs = [one == other for place, one in enumerate(firsts) for other in firsts[:place]]
    return sum(pairs) / len(pairs) if pairs else 0.0
