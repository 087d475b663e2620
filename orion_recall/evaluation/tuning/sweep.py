"""Sweeps a grid over a profile's keys, and ablations: runs without each source and each score part."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from orion_recall.evaluation.baselines import BASELINES, Baseline
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.figures import Figures, figures_of
from orion_recall.evaluation.fill import changes
from orion_recall.evaluation.measures import judged
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.evaluation.tuning.features import (
    CHANGING,
    PARTS,
    Candidates,
    candidates_of,
    is_ranked_by_weights_alone,
    run_under,
)
from orion_recall.evaluation.tuning.keyword_index import KeywordIndex
from orion_recall.evaluation.tuning.variants import KEYWORD_KEYS, Point, ablations, at, name_of
from orion_recall.index.text_forms import with_lengths
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.sources.vector_lexical import LexicalSource
from orion_recall.text.keyword_weights import KeywordWeights, keyword_weights_of
from orion_recall.values import Change, SourceName

_KeywordPoint = tuple[tuple[str, object], ...]


class Reweighed:
    """Runs of profiles; those that differ from the plan's own in weights alone need no recall.

    They are ranked from a table of the candidates' score parts (see `features`). There is a table for each
    combination of the parts in `CHANGING`, made when it is first needed.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._tables: dict[tuple[str, ...], list[Candidates]] = {}

    async def run(self, profile: Profile, *, what: str) -> Run:
        """The result of every query by its id."""
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


async def sweep(
    trials: Trials, points: Sequence[Point], *, by: str, depths: tuple[int, ...] = (5, 10)
) -> list[Figures]:
    """The figures of the profile as it is, then of every grid point, best first by the measure `by`."""
    current = trials.plan.profile
    profiles = [at(current, point) for point in points]  # all are validated before the first one runs
    own = Reweighed(trials)
    found: dict[str, Run] = {current.profile: await own.run(current, what=current.profile)}
    others: dict[_KeywordPoint, Reweighed] = {}
    told: Sequence[Change] = ()
    for point, profile in zip(points, profiles, strict=True):
        constants = {key: value for key, value in point.items() if key in KEYWORD_KEYS}
        searching = own
        if constants:
            told = told or changes(await asyncio.to_thread(read_memories, trials.plan.memories))
            key = tuple(sorted(constants.items()))
            if key not in others:
                others[key] = Reweighed(await _with_keywords(trials, told, constants))
            searching = others[key]
        found[name_of(point)] = await searching.run(profile, what=name_of(point))
    first, *rest = figures_of(found, judged(trials.plan.queries), against=current.profile, depths=depths)
    return [first, *sorted(rest, key=lambda one: -one.scores.means[by].mean)]


async def ablate(trials: Trials, *, depths: tuple[int, ...] = (5, 10)) -> list[Figures]:
    """The figures of the profile, of it without each source and part, of single sources and parts, of baselines."""
    current = trials.plan.profile
    own = Reweighed(trials)
    found: dict[str, Run] = {current.profile: await own.run(current, what=current.profile)}
    there: list[SourceName] = list(trials.sources)
    for what, one in ablations(current, there).items():
        searching = (
            own
            if one.sources == there
            else trials.with_sources({name: trials.sources[name] for name in one.sources})
        )
        found[what] = await searching.run(one.profile, what=what)
    for one in BASELINES:
        baseline = Baseline(name=one)
        other = trials.with_sources(await baseline.sources(trials.opened, trials.contents))
        found[f"baseline {one}"] = await other.run(baseline.profile, what=f"baseline {one}")
    return figures_of(found, judged(trials.plan.queries), against=current.profile, depths=depths)


async def _with_keywords(trials: Trials, told: Sequence[Change], constants: Mapping[str, object]) -> Trials:
    """The same queries over a keyword index with other BM25 constants."""
    given = ",".join(f"{key.removeprefix('bm25.')}={value}" for key, value in constants.items())
    weights = keyword_weights_of(given)
    assert isinstance(weights, KeywordWeights)
    sparse = SparseEncoder(await asyncio.to_thread(with_lengths, weights, told))
    index = await asyncio.to_thread(KeywordIndex, told, sparse)
    return trials.with_sources({**trials.sources, "lexical": LexicalSource(index, sparse)})
