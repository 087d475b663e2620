"""The confidence of an answer, and the gate that withholds an answer below the profile's minimum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orion_recall.profile.cascade import NoAnswer
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.scoring.candidates import ScoredCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConfidence:
    """The confidence of every item of the bundle, by key, and of the answer; None when there is no item."""

    items: Mapping[int, Confidence]
    overall: float | None


NO_CONFIDENCE = AnswerConfidence(items={}, overall=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """The reason for an empty bundle although `near_misses` items were found."""

    what: str
    value: float
    least: float
    near_misses: int

    @property
    def reason(self) -> str:
        """The reason in words."""
        return f"the {self.what} of {self.value:.3f} is under the profile's minimum of {self.least:g}"


def answer_confidence(
    kept: Sequence[ScoredCandidate], confidences: Mapping[int, Confidence], *, firsts: Collection[int] = ()
) -> AnswerConfidence:
    """The answer's confidence: that of its first item; after a cascade, the highest of the layers' `firsts`.

    `kept` are the bundle's items, `confidences` those of them and of others, `firsts` the keys of first items.
    """
    if not kept:
        return NO_CONFIDENCE
    items = {item.candidate.key: confidences[item.candidate.key] for item in kept}
    overall = max(
        [items[key].overall for key in firsts if key in items], default=items[kept[0].candidate.key].overall
    )
    return AnswerConfidence(items=items, overall=overall)


def gate(selection: Selection, overall: float | None, least: NoAnswer) -> tuple[Selection, Withheld | None]:
    """The selection; or an empty one and the reason, where confidence or score is below the profile's minimum."""
    if not least.is_on or overall is None:
        return selection, None
    count, score = len(selection.items), max(item.scored.score for item in selection.items)
    if overall < least.min_confidence:
        withheld = Withheld(what="confidence", value=overall, least=least.min_confidence, near_misses=count)
    elif score < least.min_score:
        withheld = Withheld(what="best score", value=score, least=least.min_score, near_misses=count)
    else:
        return selection, None
    keys = [item.scored.candidate.key for item in selection.items]
    return Selection(
        items=(),
        tokens=0,
        dropped={**selection.dropped, "no_answer": count},
        left_out={**selection.left_out, **dict.fromkeys(keys, "no_answer")},
    ), withheld
