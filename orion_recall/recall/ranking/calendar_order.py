"""The order of a calendar's answer: what is told of the time that was asked for, then a few others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate

# A memory tells of the time if it tells of little else: not if it says "this year".
_TELLS: Final = 0.25
# So many answers are wanted at least; what tells of no such time fills them up. A few more are kept, especially
# where more than the time was asked for, as long as the answer is not long.
_FEWEST, _LONG = 6, 10
_OTHERS, _OTHERS_OF_A_SUBJECT = 2, 4


def calendar_order(
    ranked: Sequence[ScoredCandidate], understood: Understanding, dropped: Dropped
) -> Sequence[ScoredCandidate]:
    """The ranked items, for a calendar's question those with the part `told` first, and few of the others.

    Best first within both. What moves or cancels one of them is of the time, too, whatever time it tells. Where
    nothing is told of the time, they stay as they are.
    """
    if not understood.of_calendar:
        return ranked
    telling = [item for item in ranked if item.parts.get("told", 0.0) >= _TELLS]
    if not telling:
        return ranked
    keys = {item.candidate.key for item in telling}
    keys |= {item.outdated.link.key for item in telling if item.outdated is not None}
    inside = [item for item in ranked if item.candidate.key in keys]
    others = [item for item in ranked if item.candidate.key not in keys]
    most = _OTHERS if understood.question.time.alone else _OTHERS_OF_A_SUBJECT
    kept = max(_FEWEST - len(inside), min(most, _LONG - len(inside)), 0)
    for item in others[kept:]:
        dropped.note("other_time", item.candidate.key)
    return [*inside, *others[:kept]]
