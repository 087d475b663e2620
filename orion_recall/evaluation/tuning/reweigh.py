"""Runs under other weights, worked out from the candidates' parts: as the recall ranks, in a part of its time."""

from __future__ import annotations

import numpy as np

from orion_recall.evaluation.trials import Run, Trials
from orion_recall.evaluation.tuning.features import (
    CHANGING,
    PARTS,
    Candidates,
    candidates_of,
    is_ranked_by_weights_alone,
    run_under,
)
from orion_recall.profile import Profile


class Reweighed:
    """Trials of profiles that differ from the plan's own in their weights alone; for others the recall is asked.

    Which parts are on that change more than their own column decides which table is asked; each is made when it is
    first needed.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._tables: dict[tuple[str, ...], list[Candidates]] = {}

    async def run(self, profile: Profile, *, what: str) -> Run:
        """What every query gets, by its id."""
        if not self._only_weighs_otherwise(profile):
            return await self._trials.run(profile, what=what)
        off = tuple(name for name in CHANGING if not getattr(profile.ranking, name))
        if off not in self._tables:
            told = f"parts of the candidates, without {', '.join(off)}" if off else "parts of the candidates"
            self._tables[off] = await candidates_of(self._trials, self._trials.plan.profile, what=told, off=off)
        weights = np.array([getattr(profile.ranking, name) for name in PARTS], dtype=np.float64)
        return run_under(self._tables[off], weights, profile.near_duplicate_similarity)

    def _only_weighs_otherwise(self, profile: Profile) -> bool:
        current = self._trials.plan.profile
        same = profile.model_copy(update={"ranking": current.ranking}) == current
        return same and is_ranked_by_weights_alone(profile)
