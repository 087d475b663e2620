"""Learns a profile's ranking weights from judged queries, with cross-validated figures.

Each conversation is held out in turn: its queries are ranked by weights learned from the others. A single
conversation is divided into five folds of queries.

For queries from feedback only the shown memories are judged: others may be just as good, so they are no negative
examples. Shown memories are alike in the score parts that ranked them high, so little can be learned about these
parts: with feedback the weights are regularised towards the profile's own instead of towards 0.
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
from orion_recall.evaluation.tuning.listnet import learn_weights
from orion_recall.profile import Profile
from orion_recall.profile.profile_values import RankingDifferences
from orion_recall.profile.sections import FOUND_BY, RankingWeights

Values = npt.NDArray[np.float64]

NOT_LEARNED = "recency"
"""Its share stays as in the profile: judged queries ask about any time, callers mostly about recent times."""
FOLDS = 5
FEW = 50
"""Under so many judged queries the figures of two profiles differ by chance more than weights make them differ."""
_HELD_OUT = "learned, held out"
NEAR = 20.0
"""The sum of the weights that regularisation pulls to with feedback, in the profile's proportions: the scale of the
scores in the softmax. Over the judged queries of the golden set 19 fits the scores of reflect.v1 best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningOptions:
    """The parts to learn, the strength of L2, and the step that weights are rounded to.

    `passed_over` is the sample weight of memories that were shown and neither used nor called wrong.
    """

    parts: tuple[str, ...]
    l2: float = 1.0
    step: float = 0.05
    passed_over: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """Learned weights by part: of each fold, by the conversation held out, and of all queries; and figures.

    The figures named `learned, held out` are cross-validated; `learned, all` are of the training queries.
    `from_feedback` is the number of queries from feedback.
    """

    from_feedback: int
    folds: Mapping[str, Mapping[str, float]]
    weights: Mapping[str, float]
    figures: Sequence[Figures]
    profile: Profile

    @property
    def loss(self) -> float:
        """The loss of recall at the first depth against the profile's own weights, on queries held out; 0: a gain.

        Queries from feedback say nothing about a loss: their evidence is what the profile's own weights returned.
        """
        held_out = next(one for one in self.figures if one.name == _HELD_OUT)
        first = next(name for name in held_out.against if name.startswith("recall@"))
        return 0.0 if self.from_feedback else max(0.0, -held_out.against[first].difference.mean)


async def tune(trials: Trials, learning: LearningOptions, *, depths: tuple[int, ...] = (5, 10)) -> Tuned:
    """The learned weights and their figures. EvaluationError when nothing can be learned from the queries."""
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
        other = _with(current, folds[name])
        if is_ranked_by_weights_alone(other):
            held_out |= run_under(mine, _vector(folds[name]), similar)
        else:
            asked = trials.of_queries([one.query for one in mine])
            held_out |= await asked.run(other, what=f"learned without {name}")
    weights = weights_of(table, current, learning)
    tuned = _with(current, weights)

    baseline = Baseline(name="rrf")
    plain = trials.with_sources(await baseline.sources(trials.opened, trials.contents))
    runs: dict[str, Run] = {
        "plain rrf": await plain.run(baseline.profile, what="plain rrf"),
        current.profile: await trials.run(current, what=current.profile),
        _HELD_OUT: held_out,
        "learned, all": await trials.run(tuned, what="learned"),
    }
    return Tuned(
        from_feedback=sum(query.shown is not None for query in counting),
        folds=folds,
        weights=weights,
        figures=figures_of(runs, counting, against=current.profile, depths=depths),
        profile=tuned,
    )


def _with(profile: Profile, weights: Mapping[str, float]) -> Profile:
    """The profile with these weights, whoever talks: they were learned from all queries."""
    return profile.model_copy(
        update={"ranking": RankingWeights(**weights), "ranking_with_assistant": RankingDifferences()}
    )


def weights_of(table: Sequence[Candidates], profile: Profile, learning: LearningOptions) -> dict[str, float]:
    """The weights by part: the greatest is 1, all are rounded, and recency keeps its share of the profile.

    Other parts that are not learned have weight 0.
    """
    columns = [PARTS.index(name) for name in learning.parts]
    given: dict[str, float] = profile.ranking.model_dump()
    from_feedback = any(one.query.shown is not None for one in table)
    found = learn_weights(
        [one.values[:, columns] for one in table],
        [one.relevant for one in table],
        l2=learning.l2,
        counted=[counts_of(one, learning.passed_over) for one in table],
        near=NEAR / sum(given.values()) * np.array([given[name] for name in learning.parts])
        if from_feedback
        else None,
    )
    if found.max() <= 0:
        raise EvaluationError("no score part distinguishes evidence from other memories: nothing was learned")
    weights = dict.fromkeys(PARTS, 0.0)
    for name, weight in zip(learning.parts, (found / found.max()).tolist(), strict=True):
        weights[name] = _rounded(weight, learning.step)
    if not any(weights[name] for name in FOUND_BY):
        weights["fusion"] = learning.step  # a profile needs one of these: every candidate has `fusion`
    share = given[NOT_LEARNED] / sum(given.values())
    weights[NOT_LEARNED] = _rounded(sum(weights.values()) * share / (1 - share), learning.step)
    if share and not weights[NOT_LEARNED]:
        weights[NOT_LEARNED] = learning.step
    return weights


def counts_of(candidates: Candidates, passed_over: float) -> Values:
    """The sample weight of each candidate: 1, but with feedback 0 for memories that were not shown."""
    query = candidates.query
    if query.shown is None:
        return np.ones(len(candidates.ids))
    told, shown = query.evidence | query.wrong, frozenset(query.shown)
    return np.array(
        [1.0 if name in told else passed_over if name in shown else 0.0 for name in candidates.ids],
        dtype=np.float64,
    )


def _folds(table: Sequence[Candidates]) -> dict[str, frozenset[int]]:
    """The positions of each fold's queries in the table, by the fold's name."""
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
