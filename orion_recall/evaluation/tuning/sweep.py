"""A grid over a profile's keys, and what each source and each part of a profile adds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from orion_recall.evaluation.baselines import BASELINES, Baseline
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.figures import Figures, figures_of
from orion_recall.evaluation.fill import changes
from orion_recall.evaluation.measures import judged
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.evaluation.tuning.keyword_index import KeywordIndex
from orion_recall.evaluation.tuning.reweigh import Reweighed
from orion_recall.evaluation.tuning.variants import KEYWORD_KEYS, Point, ablations, at, name_of
from orion_recall.models.sparse import K1, B, SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource
from orion_recall.values import Change, SourceName

_KeywordPoint = tuple[tuple[str, object], ...]


async def sweep(
    trials: Trials, points: Sequence[Point], *, by: str, depths: tuple[int, ...] = (5, 10)
) -> list[Figures]:
    """The profile as it is, then every point of the grid, best first by the measure `by`."""
    current = trials.plan.profile
    profiles = [at(current, point) for point in points]  # all of them are looked at before the first is run
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
    """The profile as it is, then without each source and each part, then with little else, then the baselines."""
    current = trials.plan.profile
    own = Reweighed(trials)
    found: dict[str, Run] = {current.profile: await own.run(current, what=current.profile)}
    there: list[SourceName] = list(trials.arms)
    for name, one in ablations(current, there).items():
        searching = (
            own if one.sources == there else trials.with_arms({arm: trials.arms[arm] for arm in one.sources})
        )
        found[name] = await searching.run(one.profile, what=name)
    for one in BASELINES:
        baseline = Baseline(name=one)
        other = trials.with_arms(await baseline.arms(trials.opened, trials.contents))
        found[f"baseline {one}"] = await other.run(baseline.profile, what=f"baseline {one}")
    return figures_of(found, judged(trials.plan.queries), against=current.profile, depths=depths)


async def _with_keywords(trials: Trials, told: Sequence[Change], constants: Mapping[str, object]) -> Trials:
    """The same queries over a keyword index with other constants."""
    given = {key.removeprefix("bm25."): float(str(value)) for key, value in constants.items()}
    sparse = SparseEncoder(k1=given.get("k1", K1), b=given.get("b", B))
    index = await asyncio.to_thread(KeywordIndex, told, sparse)
    return trials.with_arms({**trials.arms, "lexical": LexicalSource(index, sparse)})
