"""The retrieval measures of a run, their means with intervals, comparisons of runs, and the worst queries.

With E the evidence of a query and R its ranking, best first and without repetitions:

    recall@k     |E in R[:k]| / |E|
    precision@k  |E in R[:k]| / k
    hit@k        1 if anything of E is in R[:k]
    full@k       1 if all of E is in R[:k]
    ndcg@k       discounted gain 1 / log2(rank + 1) of E in R[:k], over that of the best order possible
                 (Järvelin and Kekäläinen 2002, binary gains)
    mrr          1 / rank of the first of E, 0 if none of it is in R
    map          the mean over E of the precision at the rank of each, 0 for what is not in R (average precision)
    recall@bundle    the share of E in the bundle, after caps and token budget (`selected`)

A query without a line in the run counts as 0. A worst query may have failed in these ways, by the words that it
and its missed memories (evidence behind rank 5) have in common, stemmed:

    semantic_gap     a missed memory shares no content word with it: "ML", "machine learning"
    several_words    a missed memory shares some of its content words, and not all: "quantum computing"
    pronoun          it or a missed memory refers by a pronoun: "that thing we discussed", "she sold it"
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orion_recall.decisions.comparison import Mean, Values, means_of, randomisation_test
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.models.sparse import SparseEncoder

_SAME = 1e-12
_NOTHING = RunLine(ranked=(), selected=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Values of shape (queries, measures). `missing` is the number of queries without a line in the run."""

    measures: tuple[str, ...]
    queries: tuple[JudgedQuery, ...]
    values: Values
    missing: int


def depths_with(by: str, depths: Sequence[int]) -> tuple[int, ...]:
    """The depths, with that of the measure `by`; SettingsError for a measure that there is not."""
    name, at, k = by.partition("@")
    if at and k.isdigit() and int(k) > 0 and name in ("recall", "precision", "hit", "full", "ndcg"):
        return tuple(sorted({*depths, int(k)}))
    if by in ("mrr", "map"):
        return tuple(depths)
    raise SettingsError(f"--by: {by!r} is not measured; there are recall@5, precision@5, ndcg@5, mrr, map")


def judged(queries: Sequence[JudgedQuery], *, all_categories: bool = False) -> list[JudgedQuery]:
    """The queries with evidence; those marked as not scored only with `all_categories`."""
    return [query for query in queries if query.evidence and (query.scored or all_categories)]


def measure(
    run: Mapping[str, RunLine],
    queries: Sequence[JudgedQuery],
    depths: Sequence[int] = (5, 10, 20),
    *,
    source: str | Path = "the run",
) -> Measured:
    """The run's measures over these queries; with `recall@bundle` when any line has `selected`.

    EvaluationError without queries.
    """
    if not queries:
        raise EvaluationError(f"{source}: no query counts: none has evidence, or all are marked as not scored")
    bundles = any(line.selected is not None for line in run.values())
    rows = [_measures(run.get(query.id, _NOTHING), query, depths, bundles=bundles) for query in queries]
    return Measured(
        measures=tuple(rows[0]),
        queries=tuple(queries),
        values=np.array([list(row.values()) for row in rows], dtype=np.float64),
        missing=sum(query.id not in run for query in queries),
    )


def _measures(line: RunLine, query: JudgedQuery, depths: Sequence[int], *, bundles: bool) -> dict[str, float]:
    evidence = query.evidence
    ranked = tuple(dict.fromkeys(line.ranked))
    found = np.array([name in evidence for name in ranked], dtype=np.float64)
    row: dict[str, float] = {}
    for k in depths:
        row |= _at(k, found[:k], len(evidence))
    places = np.flatnonzero(found)
    row["mrr"] = 1.0 / (int(places[0]) + 1) if places.size else 0.0
    row["map"] = float((np.arange(1, places.size + 1) / (places + 1)).sum()) / len(evidence)
    if bundles:
        row["recall@bundle"] = len(evidence.intersection(line.selected or ())) / len(evidence)
    return row


def _at(k: int, found: Values, relevant: int) -> dict[str, float]:
    hits = float(found.sum())
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    return {
        f"recall@{k}": hits / relevant,
        f"precision@{k}": hits / k,
        f"hit@{k}": float(hits > 0),
        f"full@{k}": float(hits == relevant),
        f"ndcg@{k}": float(found @ discounts[: len(found)]) / float(discounts[:relevant].sum()),
    }


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


def score(measured: Measured, *, resamples: int = 2000, seed: int = 0) -> tuple[Scores, dict[str, Scores]]:
    """The means over all queries, and by category."""
    categories = np.array([query.category for query in measured.queries])
    by_category = {
        category: _scores(measured.measures, measured.values[categories == category], resamples, seed)
        for category in sorted(set(categories.tolist()))
    }
    return _scores(measured.measures, measured.values, resamples, seed), by_category


def compare(
    a: Measured, b: Measured, *, resamples: int = 2000, permutations: int = 10_000, seed: int = 0
) -> dict[str, Difference]:
    """B against A by measure, for the measures that both have; p is not corrected for several measures."""
    shared = [name for name in a.measures if name in b.measures]
    ours, theirs = _columns(a, shared), _columns(b, shared)
    between = theirs - ours
    means = means_of(between, resamples=resamples, seed=seed)
    p = randomisation_test(between, permutations=permutations, seed=seed)
    return {
        name: Difference(
            a=float(ours[:, place].mean()),
            b=float(theirs[:, place].mean()),
            difference=means[place],
            p=float(p[place]),
            wins=int((between[:, place] > _SAME).sum()),
            ties=int((np.abs(between[:, place]) <= _SAME).sum()),
            losses=int((between[:, place] < -_SAME).sum()),
        )
        for place, name in enumerate(shared)
    }


Changed = tuple[JudgedQuery, float, float]
"""One query with its different values in two runs."""


def most_changed(a: Measured, b: Measured, measure: str, limit: int) -> list[Changed]:
    """The queries that differ most in one measure, in the file's order where they differ alike."""
    ours, theirs = _columns(a, [measure])[:, 0], _columns(b, [measure])[:, 0]
    order = np.argsort(-np.abs(theirs - ours), kind="stable")[:limit]
    places: list[int] = order.tolist()
    return [
        (a.queries[place], float(ours[place]), float(theirs[place]))
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
    measured = {
        name: measure({key: RunLine(ranked=line.ranked) for key, line in run.items()}, queries, depths)
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
    means = means_of(values, resamples=resamples, seed=seed)
    return Scores(queries=len(values), means=dict(zip(measures, means, strict=True)))


def _columns(measured: Measured, names: Sequence[str]) -> Values:
    return measured.values[:, [measured.measures.index(name) for name in names]]


_PRONOUN = re.compile(
    r"\b(?:he|him|his|she|hers?|they|them|theirs?|it|its|(?:this|that|these|those) (?:thing|one|stuff)s?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstQuery:
    """One query: its value of the measure, the rank of each piece of evidence (None: not ranked), its failures."""

    query: JudgedQuery
    value: float
    ranks: Mapping[str, int | None]
    failures: tuple[str, ...]


def worst(
    measured: Measured, run: Mapping[str, RunLine], by: str, texts: Mapping[tuple[str, str], str]
) -> tuple[list[WorstQuery], Counter[str]]:
    """All queries below 1 in the measure, the worst first, and how often each type of failure.

    `texts` are those of the memories by conversation and id: without them no failure is named.
    """
    found: list[WorstQuery] = []
    for query, value in zip(measured.queries, _columns(measured, [by])[:, 0].tolist(), strict=True):
        if value < 1:
            ranked = tuple(dict.fromkeys(run.get(query.id, _NOTHING).ranked))
            ranks = {one: ranked.index(one) + 1 if one in ranked else None for one in sorted(query.evidence)}
            missed = [texts.get((query.conversation, one)) for one, rank in ranks.items() if not rank or rank > 5]
            failures = failure_types(query.text, [text for text in missed if text is not None])
            found.append(WorstQuery(query=query, value=value, ranks=ranks, failures=failures))
    found.sort(key=lambda one: (one.value, -max(rank or 10_000 for rank in one.ranks.values())))
    return found, Counter(name for one in found for name in one.failures)


def failure_types(question: str, missed: Sequence[str]) -> tuple[str, ...]:
    sparse = SparseEncoder()
    wanted = frozenset(sparse.encode_query(question).indices)
    shared = [len(wanted & frozenset(sparse.encode_document(text).indices)) for text in missed]
    holds = {
        "semantic_gap": any(count == 0 for count in shared),
        "several_words": any(0 < count < len(wanted) for count in shared),
        "pronoun": bool(missed) and any(_PRONOUN.search(text) for text in (question, *missed)),
    }
    return tuple(name for name, is_so in holds.items() if is_so)
