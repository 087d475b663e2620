"""Feature tables: the score parts of every candidate, from real recalls, to rank them by any weights.

Other weights change the order of the candidates and nothing else. So weights are learned and tried on these tables,
with the same result as a recall.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.evaluation.trials import Run, Trials
from orion_recall.profile import Profile
from orion_recall.profile.cascade import Cascade
from orion_recall.profile.model import Strategies
from orion_recall.profile.profile_values import RankingDifferences
from orion_recall.profile.sections import RankingWeights, Rerank
from orion_recall.recall.ranking.near_duplicates import near_duplicates
from orion_recall.scoring.candidates import ScoredCandidate

Values = npt.NDArray[np.float64]

PARTS: tuple[str, ...] = tuple(RankingWeights.model_fields)
CHANGING = ("late", "links", "second_step", "conversation")
"""Parts that change more than their own column when they are on: `late` changes `session`, and the others add
candidates."""
# No measure looks beyond this rank, and near-duplicates are only removed up to it.
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """One query's candidates: `values` of the shape (candidates, parts), NaN for a missing part.

    `relevant` marks the evidence. `later` orders candidates of equal score. `repeated` holds the candidates
    themselves if there are near-duplicates among them, else it is empty.
    """

    query: JudgedQuery
    ids: tuple[str, ...]
    values: Values
    relevant: npt.NDArray[np.bool_]
    later: npt.NDArray[np.int64]
    repeated: tuple[ScoredCandidate, ...]


def is_ranked_by_weights_alone(profile: Profile) -> bool:
    """Whether the weights and one table of candidates determine the profile's rankings.

    They do not with a reranker, a `min_score`, a cascade, strategies by query class, weights of their own for talk
    with an assistant, or successors, which stand before what they succeed.
    """
    by_more = profile.rerank.enabled or profile.min_score > 0 or profile.cascade.enabled
    by_more = by_more or profile.superseded != "keep"
    overrides = profile.strategies.model_fields_set | profile.ranking_with_assistant.model_fields_set
    return not by_more and not overrides


async def candidates_of(
    trials: Trials, profile: Profile, *, what: str, off: Collection[str] = ()
) -> list[Candidates]:
    """The candidates of the judged queries, with every score part but those that are `off`."""
    return [
        table_of(query, recalled.result.scored if recalled.result else (), profile.near_duplicate_similarity)
        async for query, recalled in trials.recalls(with_all_parts(profile, off=off), what=what)
        if query.evidence and query.scored
    ]


def table_of(query: JudgedQuery, scored: Sequence[ScoredCandidate], similarity: float) -> Candidates:
    """One query's candidates as a table; near-duplicates by this similarity."""
    values = np.array([[item.parts.get(name, math.nan) for name in PARTS] for item in scored], dtype=np.float64)
    ages = [(math.inf if item.memory.ts is None else -item.memory.ts, item.memory.id) for item in scored]
    later = np.empty(len(scored), dtype=np.int64)
    later[sorted(range(len(scored)), key=ages.__getitem__)] = np.arange(len(scored))
    return Candidates(
        query=query,
        ids=tuple(item.memory.id for item in scored),
        values=values.reshape(len(scored), len(PARTS)),
        relevant=np.array([item.memory.id in query.evidence for item in scored], dtype=np.bool_),
        later=later,
        repeated=tuple(scored) if near_duplicates(scored, similarity) else (),
    )


def with_all_parts(profile: Profile, *, off: Collection[str] = ()) -> Profile:
    """The profile with every score part on but those that are `off`, ranked by weights alone.

    The candidates depend only on which weights of `CHANGING` are 0, not on the other weights.
    """
    weights = {name: 0.0 if name in off else getattr(profile.ranking, name) or 1.0 for name in PARTS}
    return profile.model_copy(
        update={
            "ranking": RankingWeights.model_construct(None, **weights),
            "ranking_with_assistant": RankingDifferences(),
            "rerank": Rerank(),
            "min_score": 0.0,
            "cascade": Cascade(),
            "strategies": Strategies(),
        }
    )


def scores(candidates: Candidates, weights: Values) -> Values:
    """The candidates' scores: the weighted mean of the parts that each has, rounded to 1e-6."""
    there = ~np.isnan(candidates.values)
    total = np.where(there, candidates.values, 0.0) @ weights
    weighed = there.astype(np.float64) @ weights
    return np.round(total / np.where(weighed > 0, weighed, 1.0), 6)


def ranked(candidates: Candidates, weights: Values, near_duplicate_similarity: float) -> RunLine:
    """The ranking under the weights, without near-duplicates."""
    order: list[int] = np.lexsort((candidates.later, -scores(candidates, weights))).tolist()
    order = order[:_DEEPEST]
    if candidates.repeated:
        again = near_duplicates([candidates.repeated[place] for place in order], near_duplicate_similarity)
        order = [place for rank, place in enumerate(order) if rank not in again]
    return RunLine(ranked=tuple(candidates.ids[place] for place in order), selected=None, line=0)


def run_under(table: Sequence[Candidates], weights: Values, near_duplicate_similarity: float) -> Run:
    """The result of every query of the table under the weights."""
    return {one.query.id: ranked(one, weights, near_duplicate_similarity) for one in table}
