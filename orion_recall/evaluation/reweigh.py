"""Runs under other weights, worked out from the candidates' parts: as the recall ranks, in a part of its time."""

from __future__ import annotations

import numpy as np

from orion_recall.evaluation.features import PARTS, Candidates, candidates_of, run_under
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.profile import Profile


class Reweighed:
    """Trials of profiles that differ from the plan's own in their weights alone; for others the recall is asked.

    Whether late interaction counts decides what `session` is, so that there are two tables, each made when it is
    first needed.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._tables: dict[bool, list[Candidates]] = {}

    async def run(self, profile: Profile, *, what: str) -> Run:
        """What every query gets, by its id."""
        if not self._only_weighs_otherwise(profile):
            return await self._trials.run(profile, what=what)
        late = profile.ranking.late > 0
        if late not in self._tables:
            told = "parts of the candidates" if late else "parts of the candidates, without late interaction"
            self._tables[late] = await candidates_of(self._trials, self._trials.plan.profile, what=told, late=late)
        weights = np.array([getattr(profile.ranking, name) for name in PARTS], dtype=np.float64)
        return run_under(self._tables[late], weights, profile.near_duplicate_similarity)

    def _only_weighs_otherwise(self, profile: Profile) -> bool:
        current = self._trials.plan.profile
        same = profile.model_copy(update={"ranking": current.ranking}) == current
        # A reranker is asked about the best of an order, and a least score is of this order's scores.
        return same and not profile.rerank.enabled and profile.min_score == 0
