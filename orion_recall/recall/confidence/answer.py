"""How sure the answer is, and whether something so unsure is handed over at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orion_recall.profile import Profile
from orion_recall.profile.cascade import NoAnswer
from orion_recall.recall.cascade.run import Descent
from orion_recall.recall.confidence.factors import Confidence, confidences
from orion_recall.recall.pass_result import Found
from orion_recall.values import Question, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Sureness:
    """The confidence of every item of the bundle, by key, and that of the answer; None when there is no item."""

    items: Mapping[int, Confidence]
    overall: float | None


NOT_SURE = Sureness(items={}, overall=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Why nothing is handed over although `near_misses` items were found."""

    what: str
    value: float
    least: float
    near_misses: int

    @property
    def reason(self) -> str:
        """In words."""
        return f"the {self.what} of {self.value:.3f} is under the profile's minimum of {self.least:g}"


def sureness(
    selection: Selection, found: Found, question: Question, profile: Profile, descent: Descent | None
) -> Sureness:
    """The answer's confidence is its first item's; after a cascade, that of the surest first item of a layer."""
    kept = [item.scored for item in selection.items]
    if descent is None:
        sure: Mapping[int, Confidence] = confidences(
            kept, found.scored, question, profile, told_again=found.told_again
        )
    else:
        sure = {item.candidate.key: descent.confidences[item.candidate.key] for item in kept}
    if not kept:
        return NOT_SURE
    firsts = descent.firsts & sure.keys() if descent else ()
    overall = max([sure[key].overall for key in firsts], default=sure[kept[0].candidate.key].overall)
    return Sureness(items=sure, overall=overall)


def gate(selection: Selection, overall: float | None, least: NoAnswer) -> tuple[Selection, Withheld | None]:
    """The selection, or an empty one and why, where the profile asks for more than there is."""
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
