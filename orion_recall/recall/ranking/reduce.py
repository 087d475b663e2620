"""The ranking reduced to what may be shown: without low scores, outdated memories and near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.profile import Profile
from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.ranking.calendar_order import calendar_order
from orion_recall.recall.ranking.outdated import outdated
from orion_recall.recall.ranking.repeats import said_once
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

    Memories that a newer one has succeeded are left out where the profile drops them. `dropped` notes each reason.
    """
    kept: list[ScoredCandidate] = []
    for item in scored:
        if item.score >= least:
            kept.append(item)
        else:
            dropped.note("below_min_score", item.candidate.key)
    if profile.succession.outdated == "drop" and understood.question.tense == "now":
        newer = outdated(kept, now=understood.question.now)
        for key, by in newer.items():
            dropped.note("outdated", key, for_key=by)
        kept = [item for item in kept if item.candidate.key not in newer]
    return [*calendar_order(said_once(kept, dropped), understood, dropped)]
