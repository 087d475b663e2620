"""Weights of a profile's ranking learned from judged queries, and how good they are where they were not learned.

Each conversation is left out in turn: its queries are ranked by weights that know nothing of it. With one
conversation alone its queries are dealt into five folds.

Of a query that was fed back only what was shown is judged. What was not shown may be just as good: it is no
example of what is not wanted. And since what was shown is alike in the parts that brought it there, little can be
learned of these: with fed-back queries weights are held near the profile's own instead of near 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.baselines import Baseline
from orion_recall.evaluation.figures import Figures, figures_of
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
from orion_recall.evaluation.tuning.listnet import learned
from orion_recall.profile import Profile
from orion_recall.profile.sections import FOUND_BY, RankingWeights

Values = npt.NDArray[np.float64]

NOT_LEARNED = "recency"
"""Its share stays what it is in the profile: judged queries look back at all of time, callers mostly do not."""
FOLDS = 5
NEAR = 20.0
"""What the weights sum to that fed-back queries hold weights near, in the proportions of the profile's: how much a
score counts in the softmax. Over the judged queries of the golden set 19 fits the scores of reflect.v1 best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What may be learned: the parts, how strongly weights are held, the step that they are rounded to.

    `passed_over` is how much counts what was shown beside evidence and was neither used nor said to be wrong.
    """

    parts: tuple[str, ...]
    l2: float = 1.0
    step: float = 0.05
    passed_over: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """Weights by part: each fold's by the conversation left out, and those of all queries, rounded; and figures.

    The figures named `learned, held out` are of folds; those of the profile are of the queries it was learned from.
    `fed_back` is how many of the queries are judged only in what was shown.
    """

    fed_back: int
    folds: Mapping[str, Mapping[str, float]]
    weights: Mapping[str, float]
    figures: Sequence[Figures]
    profile: Profile


async def tune(trials: Trials, learning: Learning, *, depths: tuple[int, ...] = (5, 10)) -> Tuned:
    """The weights learned and measured. EvaluationError when the queries cannot teach anything."""
    current = trials.plan.profile
    counting = judged(trials.plan.queries)
    off = [name for name in CHANGING if name not in learning.parts]
    table = await candidates_of(trials, current, what="candidates", off=off)
    if not counting or not any(one.relevant.any() for one in table):
        raise EvaluationError(f"{trials.plan.queries_file}: no judged query has its evidence among the candidates")
    similar = current.near_duplicate_similarity
    folds: dict[str, Mapping[str, float]] = {}
    held_out: Run = {}
    for name, left_out in _folds(table).items():
        rest = [one for place, one in enumerate(table) if place not in left_out]
        folds[name] = weights_of(rest, current, learning)
        mine = [table[place] for place in sorted(left_out)]
        if is_ranked_by_weights_alone(current):
            held_out |= run_under(mine, _vector(folds[name]), similar)
        else:
            other = current.model_copy(update={"ranking": RankingWeights(**folds[name])})
            asked = trials.of_queries([one.query for one in mine])
            held_out |= await asked.run(other, what=f"learned without {name}")
    weights = weights_of(table, current, learning)
    tuned = current.model_copy(update={"ranking": RankingWeights(**weights)})

    baseline = Baseline(name="rrf")
    plain = trials.with_arms(await baseline.arms(trials.opened, trials.contents))
    runs: dict[str, Run] = {
        "plain rrf": await plain.run(baseline.profile, what="plain rrf"),
        current.profile: await trials.run(current, what=current.profile),
        "learned, held out": held_out,
        "learned, all": await trials.run(tuned, what="learned"),
    }
    return Tuned(
        fed_back=sum(query.shown is not None for query in counting),
        folds=folds,
        weights=weights,
        figures=figures_of(runs, counting, against=current.profile, depths=depths),
        profile=tuned,
    )


def weights_of(table: Sequence[Candidates], profile: Profile, learning: Learning) -> dict[str, float]:
    """The weights by part: the greatest is 1, all are rounded, and recency has the share that the profile gives it.

    Parts that are not learned weigh 0.
    """
    columns = [PARTS.index(name) for name in learning.parts]
    given: dict[str, float] = profile.ranking.model_dump()
    fed_back = any(one.query.shown is not None for one in table)
    found = learned(
        [one.values[:, columns] for one in table],
        [one.relevant for one in table],
        l2=learning.l2,
        counted=[counts_of(one, learning.passed_over) for one in table],
        near=NEAR / sum(given.values()) * np.array([given[name] for name in learning.parts]) if fed_back else None,
    )
    if found.max() <= 0:
        raise EvaluationError("none of the parts tells evidence from the rest: nothing was learned")
    weights = dict.fromkeys(PARTS, 0.0)
    for name, weight in zip(learning.parts, (found / found.max()).tolist(), strict=True):
        weights[name] = _rounded(weight, learning.step)
    if not any(weights[name] for name in FOUND_BY):
        weights["fusion"] = learning.step  # no profile is without: what nothing else knows of has it
    share = given[NOT_LEARNED] / sum(given.values())
    weights[NOT_LEARNED] = _rounded(sum(weights.values()) * share / (1 - share), learning.step)
    if share and not weights[NOT_LEARNED]:
        weights[NOT_LEARNED] = learning.step
    return weights


def counts_of(candidates: Candidates, passed_over: float) -> Values:
    """How much each candidate counts: whole, but of a fed-back query what was not shown counts for nothing."""
    query = candidates.query
    if query.shown is None:
        return np.ones(len(candidates.ids))
    told, shown = query.evidence | query.wrong, frozenset(query.shown)
    return np.array(
        [1.0 if name in told else passed_over if name in shown else 0.0 for name in candidates.ids],
        dtype=np.float64,
    )


def _folds(table: Sequence[Candidates]) -> dict[str, frozenset[int]]:
    """The places of each fold's queries, by its name."""
    conversations: dict[str, list[int]] = {}
    for place, one in enumerate(table):
        conversations.setdefault(one.query.conversation, []).append(place)
    if len(conversations) > 1:
        return {name: frozenset(places) for name, places in sorted(conversations.items())}
    if len(table) < FOLDS:
        raise EvaluationError(f"{len(table)} judged queries of one conversation are too few to learn from")
    return {f"fold {fold + 1}": frozenset(range(fold, len(table), FOLDS)) for fold in range(FOLDS)}


def _vector(weights: Mapping[str, float]) -> Values:
    return np.array([weights[name] for name in PARTS], dtype=np.float64)


def _rounded(value: float, step: float) -> float:
    return round(round(value / step) * step, 6)
