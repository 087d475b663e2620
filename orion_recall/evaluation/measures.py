"""The retrieval measures of a run: a number for each judged query and measure.

With E the evidence of a query and R its ranking, best first and without repetitions:

    recall@k     |E in R[:k]| / |E|
    precision@k  |E in R[:k]| / k
    hit@k        1 if anything of E is in R[:k]
    full@k       1 if all of E is in R[:k]
    ndcg@k       discounted gain 1 / log2(rank + 1) of E in R[:k], over that of the best order possible
                 (Järvelin and Kekäläinen 2002, binary gains)
    mrr          1 / rank of the first of E, 0 if none of it is in R
    map          the mean over E of the precision at the rank of each, 0 for what is not in R (average precision)
    recall@Ntok  |E in P| / |E|, P the longest beginning of R whose texts fit N tokens of four characters each
    recall@bundle    the share of E in the bundle, after caps and token budget (`selected`)

A query without a line in the run counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine

Values = npt.NDArray[np.float64]

_CHARS_A_TOKEN = 4
_NOTHING = RunLine(ranked=(), selected=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The measures to compute: depths k, and token budgets.

    `lengths` are those of the memories' texts in characters, by conversation and id.
    """

    depths: tuple[int, ...] = (5, 10, 20)
    budgets: tuple[int, ...] = ()
    lengths: Mapping[tuple[str, str], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Values of shape (queries, measures). `missing` is the number of queries without a line in the run."""

    measures: tuple[str, ...]
    queries: tuple[JudgedQuery, ...]
    values: Values
    missing: int

    def rows_of(self, category: str) -> npt.NDArray[np.bool_]:
        return np.array([query.category == category for query in self.queries], dtype=np.bool_)

    @property
    def categories(self) -> list[str]:
        return sorted({query.category for query in self.queries})


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
    run: Mapping[str, RunLine], queries: Sequence[JudgedQuery], wanted: Wanted, *, source: str | Path = "the run"
) -> Measured:
    """The run's measures over these queries; with `recall@bundle` when any line has `selected`.

    EvaluationError without queries.
    """
    if not queries:
        raise EvaluationError(f"{source}: no query counts: none has evidence, or all are marked as not scored")
    bundles = any(line.selected is not None for line in run.values())
    rows = [_measures(run.get(query.id, _NOTHING), query, wanted, bundles=bundles) for query in queries]
    return Measured(
        measures=tuple(rows[0]),
        queries=tuple(queries),
        values=np.array([list(row.values()) for row in rows], dtype=np.float64),
        missing=sum(query.id not in run for query in queries),
    )


def _measures(line: RunLine, query: JudgedQuery, wanted: Wanted, *, bundles: bool) -> dict[str, float]:
    evidence = query.evidence
    ranked = tuple(dict.fromkeys(line.ranked))
    found = np.array([name in evidence for name in ranked], dtype=np.float64)
    row: dict[str, float] = {}
    for k in wanted.depths:
        row |= _at(k, found[:k], len(evidence))
    places = np.flatnonzero(found)
    row["mrr"] = 1.0 / (int(places[0]) + 1) if places.size else 0.0
    row["map"] = float((np.arange(1, places.size + 1) / (places + 1)).sum()) / len(evidence)
    lengths = wanted.lengths or {}
    for budget in wanted.budgets:
        used = np.cumsum([-(-lengths.get((query.conversation, name), 0) // _CHARS_A_TOKEN) for name in ranked])
        row[f"recall@{budget}tok"] = float(found[used <= budget].sum()) / len(evidence)
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
