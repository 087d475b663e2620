"""The ranking reduced to what may be shown: without low scores, superseded memories and near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.profile import Profile
from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.ranking.calendar_order import calendar_order
from orion_recall.recall.ranking.near_duplicates import near_duplicates
from orion_recall.recall.successors import without_superseded
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate


def reduced(
    scored: Sequence[ScoredCandidate],
    understood: Understanding,
    profile: Profile,
    *,
    least: float,
    dropped: Dropped,
) -> list[ScoredCandidate]:
    """The candidates, best first, that score `least` or more, each said once; calendars in their own order.

    Memories that have a successor are left out where the profile omits them. `dropped` notes each reason.
    """
    kept: list[ScoredCandidate] = []
    for item in scored:
        if item.score >= least:
            kept.append(item)
        else:
            dropped.note("below_min_score", item.candidate.key)
    kept = without_superseded(kept, understood.question, profile.superseded, dropped)
    repeated = near_duplicates(kept, profile.near_duplicate_similarity)
    for place, first in repeated.items():
        dropped.note("near_duplicate", kept[place].candidate.key, for_key=kept[first].candidate.key)
    kept = [item for place, item in enumerate(kept) if place not in repeated]
    return [*calendar_order(kept, understood, dropped)]
