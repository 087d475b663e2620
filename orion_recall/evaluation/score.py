"""The scores of a run, the differences of two runs over the same queries, and the figures of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from orion_recall.decisions.intervals import Mean, bootstrap_interval, randomisation_test
from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.evaluation.measures import Measured, Values, Wanted, measure

_SAME = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Means by measure, over all queries or one category."""

    queries: int
    means: Mapping[str, Mean]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One measure of two runs: the means, B - A with its 95 percent interval, and p by randomisation.

    B is better for `wins` queries, as good for `ties`, worse for `losses`.
    """

    a: float
    b: float
    difference: Mean
    p: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One query with different values in two runs."""

    query: JudgedQuery
    a: float
    b: float


def score(measured: Measured, *, resamples: int = 2000, seed: int = 0) -> tuple[Scores, dict[str, Scores]]:
    by_category = {
        category: _scores(measured.measures, measured.values[measured.rows_of(category)], resamples, seed)
        for category in measured.categories
    }
    return _scores(measured.measures, measured.values, resamples, seed), by_category


def compare(
    a: Measured, b: Measured, *, resamples: int = 2000, permutations: int = 10_000, seed: int = 0
) -> dict[str, Difference]:
    """B against A by measure, for the measures that both have; p is not corrected for several measures."""
    shared = [name for name in a.measures if name in b.measures]
    ours, theirs = _columns(a, shared), _columns(b, shared)
    between = theirs - ours
    low, high = bootstrap_interval(between, resamples=resamples, seed=seed)
    p = randomisation_test(between, permutations=permutations, seed=seed)
    return {
        name: Difference(
            a=float(ours[:, place].mean()),
            b=float(theirs[:, place].mean()),
            difference=Mean(mean=float(between[:, place].mean()), low=float(low[place]), high=float(high[place])),
            p=float(p[place]),
            wins=int((between[:, place] > _SAME).sum()),
            ties=int((np.abs(between[:, place]) <= _SAME).sum()),
            losses=int((between[:, place] < -_SAME).sum()),
        )
        for place, name in enumerate(shared)
    }


def most_changed(a: Measured, b: Measured, measure: str, limit: int) -> list[Changed]:
    """The queries that differ most in one measure, in the file's order where they differ alike."""
    ours, theirs = _columns(a, [measure])[:, 0], _columns(b, [measure])[:, 0]
    order = np.argsort(-np.abs(theirs - ours), kind="stable")[:limit]
    places: list[int] = order.tolist()
    return [
        Changed(query=a.queries[place], a=float(ours[place]), b=float(theirs[place]))
        for place in places
        if abs(theirs[place] - ours[place]) > _SAME
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The scores of one run, and by measure its difference to the run it is compared with (B is this one)."""

    name: str
    scores: Scores
    against: Mapping[str, Difference]


def figures_of(
    runs: Mapping[str, Mapping[str, RunLine]],
    queries: Sequence[JudgedQuery],
    *,
    against: str,
    depths: tuple[int, ...],
) -> list[Figures]:
    """The figures of each run, in order; the differences are paired by query.

    The bundle is not measured here: only the ranking is compared, not caps and token budget.
    """
    wanted = Wanted(depths=depths)
    measured = {
        name: measure({key: replace(line, selected=None) for key, line in run.items()}, queries, wanted)
        for name, run in runs.items()
    }
    return [
        Figures(name=name, scores=score(one)[0], against=compare(measured[against], one, permutations=1000))
        for name, one in measured.items()
    ]


def check_known(file: Path, run: Mapping[str, RunLine], queries_file: Path, queries: Sequence[JudgedQuery]) -> None:
    """EvaluationError when the run answers a query that the file of queries does not have."""
    known = {query.id for query in queries}
    for name, line in run.items():
        if name not in known:
            raise EvaluationError(f"{file}:{line.line}: query_id {name!r} is not in {queries_file}")


def check_same(files: tuple[Path, Path], a: Mapping[str, RunLine], b: Mapping[str, RunLine]) -> None:
    """EvaluationError when two runs do not answer the same queries."""
    told = [
        f"{len(only)} only in {file} (such as {min(only)!r})"
        for file, only in zip(files, (a.keys() - b.keys(), b.keys() - a.keys()), strict=True)
        if only
    ]
    if told:
        raise EvaluationError(
            f"the runs answer different queries and cannot be compared: {', '.join(told)}; "
            "run both over the same queries, with the same --limit"
        )


def _scores(measures: Sequence[str], values: Values, resamples: int, seed: int) -> Scores:
    low, high = bootstrap_interval(values, resamples=resamples, seed=seed)
    means = values.mean(axis=0)
    return Scores(
        queries=len(values),
        means={
            name: Mean(mean=float(means[place]), low=float(low[place]), high=float(high[place]))
            for place, name in enumerate(measures)
        },
    )


def _columns(measured: Measured, names: Sequence[str]) -> Values:
    return measured.values[:, [measured.measures.index(name) for name in names]]
