"""Tunes a profile on judged queries: learned ranking weights with cross-validated figures, and grids of values.

Each conversation is held out in turn: its queries are recalled under weights learned from the others. A single
conversation is divided into five folds of queries. Candidates and their score parts are those of real recalls with
every part on; other weights change their order and nothing else.

The weights are learned by ListNet (top-one softmax, Cao and others 2007): the softmax over a query's candidates
should give all its mass to the evidence, in equal shares. With L2 this is convex. Weights below zero are
excluded: a score part never counts against a memory. Solved by projected Newton steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from pydantic import ValidationError

from orion_recall.atomic_file import whole_text
from orion_recall.contracts import describe
from orion_recall.decisions.comparison import Values
from orion_recall.errors import EvaluationError, ProfileError, SettingsError
from orion_recall.evaluation.baselines import Baselines
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.measures import Figures, figures_of, judged
from orion_recall.evaluation.trials import Plan, Progress, Run, Trials, trials
from orion_recall.profile.model import Profile, Strategies, profile_fields
from orion_recall.profile.reading import dump_profile, nearest_path, parse_profile
from orion_recall.profile.sections import RELEVANCE_PARTS, Cascade, RankingWeights, Rerank
from orion_recall.recall.ranking.score import FUSION, LATE, in_context
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights, keyword_weights_of

Flags = npt.NDArray[np.bool_]

PARTS: tuple[str, ...] = tuple(RankingWeights.model_fields)
CHANGING = ("late", "links", "second_step")
"""Parts that change more than their own column: `late` changes `session`, the others add candidates."""
NOT_LEARNED = "recency"
"""Its share stays as in the profile: judged queries ask about any time, callers mostly about recent times."""
FOLDS = 5
FEW = 50
"""Under so many judged queries the figures of two profiles differ by chance more than weights make them differ."""
_HELD_OUT = "learned, held out"
_STEPS = 200
_CLOSE = 1e-6
_OUT = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningOptions:
    """The parts to learn, the strength of L2, and the step that weights are rounded to."""

    parts: tuple[str, ...]
    l2: float = 1.0
    step: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """Learned weights by part: of each fold, by the conversation held out, and of all queries; and figures.

    The figures named `learned, held out` are cross-validated; `learned, all` are of the training queries.
    """

    folds: Mapping[str, Mapping[str, float]]
    weights: Mapping[str, float]
    figures: Sequence[Figures]
    profile: Profile

    @property
    def loss(self) -> float:
        """The loss of recall at the first depth against the profile's weights, on queries held out; 0: a gain."""
        held_out = next(one for one in self.figures if one.name == _HELD_OUT)
        first = next(name for name in held_out.against if name.startswith("recall@"))
        return max(0.0, -held_out.against[first].difference.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """One query's candidates: `values` of the shape (candidates, parts), NaN for a missing part; the evidence."""

    query: JudgedQuery
    values: Values
    relevant: Flags

    @classmethod
    def of(cls, query: JudgedQuery, scored: Sequence[ScoredCandidate]) -> Candidates:
        # For the order it is as if weights had the shares, and as if a weight had moved from one part to the other.
        shares = in_context(dict.fromkeys(PARTS, 1.0), len(scored), compared=True)
        read = {LATE: FUSION} if scored and LATE not in scored[0].parts else {}
        values = np.array(
            [[item.parts.get(read.get(name, name), math.nan) * shares[name] for name in PARTS] for item in scored],
            dtype=np.float64,
        )
        return cls(
            query=query,
            values=values.reshape(len(scored), len(PARTS)),
            relevant=np.array([item.memory.id in query.evidence for item in scored], dtype=np.bool_),
        )


async def tune(trials: Trials, learning: LearningOptions, *, depths: tuple[int, ...] = (5, 10)) -> Tuned:
    """The learned weights and their figures. EvaluationError when nothing can be learned from the queries."""
    current, counting = trials.plan.profile, judged(trials.plan.queries)
    whole = with_all_parts(current, learning.parts)
    table = [
        Candidates.of(query, recalled.result.scored if recalled.result else ())
        async for query, recalled in trials.recalls(whole, what="candidates", queries=counting)
    ]
    if not any(one.relevant.any() for one in table):
        raise EvaluationError(f"{trials.plan.queries_file}: no judged query has its evidence among the candidates")
    folds: dict[str, Mapping[str, float]] = {}
    held_out: Run = {}
    for name, left_out in _folds(table).items():
        folds[name] = weights_of(
            [one for place, one in enumerate(table) if place not in left_out], current, learning
        )
        mine = [table[place].query for place in sorted(left_out)]
        other = current.model_copy(update={"ranking": RankingWeights(**folds[name])})
        held_out |= await trials.run(other, what=f"learned without {name}", queries=mine)
    weights = weights_of(table, current, learning)
    tuned = current.model_copy(update={"ranking": RankingWeights(**weights)})
    baselines = Baselines.of(trials.opened, trials.contents)
    runs: dict[str, Run] = {
        "plain rrf": {query.id: await baselines.line("rrf", query) for query in counting},
        current.profile: await trials.run(current, what=current.profile, queries=counting),
        _HELD_OUT: held_out,
        "learned, all": await trials.run(tuned, what="learned", queries=counting),
    }
    return Tuned(
        folds=folds,
        weights=weights,
        figures=figures_of(runs, counting, against=current.profile, depths=depths),
        profile=tuned,
    )


def with_all_parts(profile: Profile, learned: Sequence[str]) -> Profile:
    """The profile with every score part on, ranked by weights alone; `CHANGING` parts only where learned."""
    off = [name for name in CHANGING if name not in learned]
    weights = {name: 0.0 if name in off else getattr(profile.ranking, name) or 1.0 for name in PARTS}
    return profile.model_copy(
        update={
            "ranking": RankingWeights.model_construct(None, **weights),
            "rerank": Rerank(),
            "min_score": 0.0,
            "cascade": Cascade(),
            "strategies": Strategies(),
        }
    )


def weights_of(table: Sequence[Candidates], profile: Profile, learning: LearningOptions) -> dict[str, float]:
    """The weights by part: the greatest is 1, all are rounded, and recency keeps its share of the profile.

    Other parts that are not learned have weight 0.
    """
    columns = [PARTS.index(name) for name in learning.parts]
    given: dict[str, float] = profile.ranking.model_dump()
    found = learn_weights(
        [one.values[:, columns] for one in table], [one.relevant for one in table], l2=learning.l2
    )
    if found.max() <= 0:
        raise EvaluationError("no score part distinguishes evidence from other memories: nothing was learned")
    weights = dict.fromkeys(PARTS, 0.0)
    for name, weight in zip(learning.parts, (found / found.max()).tolist(), strict=True):
        weights[name] = _rounded(weight, learning.step)
    if not any(weights[name] for name in RELEVANCE_PARTS):
        weights["fusion"] = learning.step  # a profile needs one of these: every candidate has `fusion`
    share = given[NOT_LEARNED] / sum(given.values())
    weights[NOT_LEARNED] = _rounded(sum(weights.values()) * share / (1 - share), learning.step)
    if share and not weights[NOT_LEARNED]:
        weights[NOT_LEARNED] = learning.step
    return weights


def _folds(table: Sequence[Candidates]) -> dict[str, frozenset[int]]:
    conversations: dict[str, list[int]] = {}
    for place, one in enumerate(table):
        conversations.setdefault(one.query.conversation, []).append(place)
    if len(conversations) > 1:
        return {name: frozenset(places) for name, places in sorted(conversations.items())}
    if len(table) < FOLDS:
        raise EvaluationError(f"{len(table)} judged queries of one conversation are too few to learn from")
    return {f"fold {fold + 1}": frozenset(range(fold, len(table), FOLDS)) for fold in range(FOLDS)}


def _rounded(value: float, step: float) -> float:
    return round(round(value / step) * step, 6)


def learn_weights(lists: Sequence[Values], relevant: Sequence[Flags], *, l2: float = 1.0) -> Values:
    """The learned weights, one for each column of `lists`, none below 0.

    `lists` holds each query's candidates, of shape (candidates, parts), missing parts NaN; `relevant` marks the
    evidence. A missing part is replaced by the query's mean. Queries whose candidates are all evidence, or none,
    are skipped. EvaluationError when no query is left.
    """
    used = [place for place, flags in enumerate(relevant) if flags.any() and not flags.all()]
    if not used:
        raise EvaluationError("no query has evidence and something else among its candidates")
    values = [_centred(lists[place]) for place in used]
    longest = max(map(len, values))
    features = np.zeros((len(used), longest, lists[used[0]].shape[1]))
    outside = np.full((len(used), longest), _OUT)
    wanted = np.zeros((len(used), longest))
    for row, (place, one) in enumerate(zip(used, values, strict=True)):
        features[row, : len(one)] = one
        outside[row, : len(one)] = 0.0
        wanted[row, : len(one)] = relevant[place] / relevant[place].sum()

    def measured(weights: Values) -> tuple[float, Values]:
        """The loss, and the softmax of each query."""
        scores = features @ weights
        inside = scores + outside
        top = inside.max(axis=1, keepdims=True)
        raised = np.exp(inside - top)
        total = raised.sum(axis=1, keepdims=True)
        loss = (top + np.log(total)).sum() - (wanted * scores).sum() + 0.5 * l2 * weights @ weights
        return float(loss), raised / total

    weights = np.ones(features.shape[2])
    loss, shares = measured(weights)
    for _ in range(_STEPS):
        gradient = np.einsum("qn,qnp->p", shares - wanted, features) + l2 * weights
        free = (weights > 0) | (gradient < 0)
        if not free.any() or np.abs(gradient[free]).max() < _CLOSE:
            break
        means = np.einsum("qn,qnp->qp", shares, features)
        flat = (features * np.sqrt(shares)[:, :, None]).reshape(-1, len(weights))
        curvature = flat.T @ flat - means.T @ means + l2 * np.eye(len(weights))
        step, part = np.zeros_like(weights), 1.0
        step[free] = -np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        while True:  # a backtracking line search
            other = np.maximum(weights + part * step, 0.0)
            after, of_other = measured(other)
            if after < loss or part <= _CLOSE:
                break
            part /= 2
        if after >= loss:
            break
        moved = np.abs(other - weights).max()
        weights, loss, shares = other, after, of_other
        if moved < _CLOSE:
            break
    return weights


def _centred(values: Values) -> Values:
    """Each part minus its mean over the candidates that have it, which changes no softmax; missing ones are 0."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    means = filled.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.where(there, filled - means, 0.0)


def write_profile(profile: Profile, out: Path, weights: Mapping[str, float]) -> Profile:
    """The profile under the name of the file `out`, with these weights; every value is written out.

    EvaluationError when the name of `out` is not valid for a profile; an existing file then stays. SettingsError
    when the file cannot be written.
    """
    ranking = profile.ranking.model_dump() | dict(weights)
    text = dump_profile(profile.model_copy(update={"profile": out.stem, "ranking": RankingWeights(**ranking)}))
    try:
        written = parse_profile(text)
    except ProfileError as error:
        raise EvaluationError(f"the profile cannot be written as {out}: {error}") from error
    with whole_text(out) as file:
        file.write(text)
    return written


Point = Mapping[str, object]
"""One point of a grid: values by dotted key."""

KEYWORD_KEYS = ("bm25.k1", "bm25.b", "bm25.length")
"""Constants of the keyword index, not of a profile: term saturation, length normalisation, mean length in terms."""
MOST_POINTS = 1000
_SAME_DECAY = ("time_decay_half_life_hours", "time_decay_lambda_per_hour")


async def sweep(
    plan: Plan,
    points: Sequence[Point],
    settings: Settings,
    progress: Progress,
    *,
    by: str,
    depths: tuple[int, ...] = (5, 10),
) -> list[Figures]:
    """The figures of the profile as it is, then of every grid point, best first by the measure `by`.

    Points of other keyword constants are searched in an index that is filled with these.
    """
    current = plan.profile
    tried = [(name_of(point), at(current, point), _keywords_of(point)) for point in points]
    found: dict[str, Run] = {}
    for keywords in dict.fromkeys([None, *(own for _, _, own in tried)]):
        async with trials(replace(plan, keywords=keywords), settings, progress) as opened:
            if keywords is None:
                found[current.profile] = await opened.run(current, what=current.profile)
            for name, profile, own in tried:
                if own == keywords:
                    found[name] = await opened.run(profile, what=name)
    first, *rest = figures_of(found, judged(plan.queries), against=current.profile, depths=depths)
    return [first, *sorted(rest, key=lambda one: -one.scores.means[by].mean)]


def grid_of(given: Sequence[str]) -> list[Point]:
    """Every combination of `key=value,value` lines. SettingsError for an invalid line, or too many combinations."""
    axes: dict[str, list[object]] = {}
    for text in given:
        key, _, values = (part.strip() for part in text.partition("="))
        if not values or key in axes:
            raise SettingsError(f"--set: {text!r} is no key=value,value, such as fusion.k=10,60, each key once")
        path = tuple(key.split("."))
        if key not in KEYWORD_KEYS and path not in profile_fields(with_overrides=True):
            nearest = nearest_path(path[:-1], path[-1])
            hint = f"did you mean {'.'.join(nearest)}?" if nearest else f"others are {', '.join(KEYWORD_KEYS)}"
            raise SettingsError(f"--set: {key!r} is no key of a profile; {hint}")
        axes[key] = [_value(key, part) for part in values.split(",")]
    points: list[Point] = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if not axes or len(points) > MOST_POINTS:
        raise SettingsError(f"--set: a grid has 1 to {MOST_POINTS} points, this has {len(points) if axes else 0}")
    for point in points:
        _keywords_of(point)
    return points


def at(profile: Profile, point: Point) -> Profile:
    """The profile with the point's values. SettingsError when they are not valid for a profile."""
    values: dict[str, Any] = profile.model_dump()
    for key, value in point.items():
        if key in KEYWORD_KEYS:
            continue
        *sections, name = key.split(".")
        if key in _SAME_DECAY:  # the point's value counts, not the profile's of the other key
            values |= {other: None for other in _SAME_DECAY if other not in point}
        place = values
        for section in sections:
            place = place.setdefault(section, {})  # of overrides only those are there that are set
        place[name] = value
    try:
        return Profile.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"--set: {name_of(point)}: {describe(error)}") from error


def name_of(point: Point) -> str:
    return " ".join(f"{key}={'null' if value is None else value}" for key, value in point.items())


def _value(key: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set: {key}: {text!r} is no value") from error


def _keywords_of(point: Point) -> KeywordWeights | None:
    """The constants of the keyword index that the point names; None where it names none."""
    told = ",".join(f"{key.removeprefix('bm25.')}={point[key]}" for key in KEYWORD_KEYS if key in point)
    if not told:
        return None
    try:
        found = keyword_weights_of(told)
    except ValueError as error:
        raise SettingsError(f"--set: {told}: {error}") from error
    assert isinstance(found, KeywordWeights)
    return found
