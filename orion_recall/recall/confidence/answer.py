"""The confidence of an answer, and the gate that withholds an answer below the profile's minimum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orion_recall.profile.cascade import NoAnswer
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.confidence.answerable import NOT_JUDGED, Answerable
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.scoring.candidates import ScoredCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConfidence:
    """The confidence of every item of the bundle, by key, and of the answer; None when there is no item.

    `answerable` is the probability that anything found answers the question.
    """

    items: Mapping[int, Confidence]
    overall: float | None
    answerable: Answerable = NOT_JUDGED


NO_CONFIDENCE = AnswerConfidence(items={}, overall=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """The reason, in words, for an empty bundle: `near_misses` items were found, or nothing was searched."""

    reason: str
    near_misses: int = 0


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


def gate(selection: Selection, confidence: AnswerConfidence, least: NoAnswer) -> tuple[Selection, Withheld | None]:
    """The selection; or an empty one and the reason, where the answer is below a minimum of the profile."""
    if not least.is_on or confidence.overall is None:
        return selection, None
    numbers = (
        ("probability of an answer", confidence.answerable.probability, least.min_probability),
        ("confidence", confidence.overall, least.min_confidence),
        ("best score", max(item.scored.score for item in selection.items), least.min_score),
    )
    below = next((one for one in numbers if one[1] is not None and one[1] < one[2]), None)
    if below is None:
        return selection, None
    what, value, minimum = below
    count = len(selection.items)
    keys = [*selection.left_out, *(item.scored.candidate.key for item in selection.items)]
    return Selection(
        items=(),
        tokens=0,
        dropped={"no_answer": count + sum(selection.dropped.values())},
        left_out=dict.fromkeys(keys, "no_answer"),
    ), Withheld(
        reason=f"the {what} of {value:.3f} is under the profile's minimum of {minimum:g}", near_misses=count
    )
