from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.measures import Wanted, judged, measure
from tests.samples.evaluation_samples import judged_query, run_line

LENGTHS = {("c", "a"): 17, ("c", "b"): 25, ("c", "c"): 4}
NAMES = st.sampled_from([f"m{number}" for number in range(12)])


def by_definition(ranked: Sequence[str], evidence: frozenset[str], k: int) -> dict[str, float]:
    """The measures as they are defined, one memory at a time."""
    unique: list[str] = []
    for name in ranked:
        if name not in unique:
            unique.append(name)
    top = unique[:k]
    hits = sum(1 for name in top if name in evidence)
    gain = sum(1 / math.log2(rank + 1) for rank, name in enumerate(top, 1) if name in evidence)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(evidence), k) + 1))
    ranks = [rank for rank, name in enumerate(unique, 1) if name in evidence]
    return {
        f"recall@{k}": hits / len(evidence),
        f"precision@{k}": hits / k,
        f"hit@{k}": 1.0 if hits else 0.0,
        f"full@{k}": 1.0 if hits == len(evidence) else 0.0,
        f"ndcg@{k}": gain / best,
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "map": sum(place / rank for place, rank in enumerate(ranks, 1)) / len(evidence),
    }


@given(st.lists(NAMES, max_size=20), st.frozensets(NAMES, min_size=1), st.integers(1, 25))
def test_every_measure_is_as_it_is_defined(ranked: list[str], evidence: frozenset[str], k: int) -> None:
    measured = measure({"q": run_line(*ranked)}, [judged_query("q", *evidence)], Wanted(depths=(k,)))
    found = dict(zip(measured.measures, measured.values[0].tolist(), strict=True))
    assert found == pytest.approx(by_definition(ranked, evidence, k), abs=1e-12)


def test_figures_worked_out_by_hand() -> None:
    measured = measure(
        {"q": run_line("x", "a", "y", "b", "a")}, [judged_query("q", "a", "b", "c")], Wanted(depths=(2, 4))
    )
    found = dict(zip(measured.measures, measured.values[0].tolist(), strict=True))
    assert found == pytest.approx(
        {
            "recall@2": 1 / 3,
            "precision@2": 0.5,
            "hit@2": 1,
            "full@2": 0,
            "ndcg@2": 0.6309297535714574 / 1.6309297535714573,
            "recall@4": 2 / 3,
            "precision@4": 0.5,
            "hit@4": 1,
            "full@4": 0,
            "ndcg@4": (0.6309297535714574 + 0.43067655807339306) / 2.1309297535714573,
            "mrr": 0.5,
            "map": (1 / 2 + 2 / 4) / 3,
        },
        abs=1e-12,
    )


def test_lengths_are_those_of_the_conversation() -> None:
    other = replace(judged_query("r", "a"), conversation="another")
    wanted = Wanted(depths=(1,), budgets=(10,), lengths=LENGTHS | {("another", "a"): 4_000})
    measured = measure({"q": run_line("a"), "r": run_line("a")}, [judged_query("q", "a"), other], wanted)
    assert measured.values[:, measured.measures.index("recall@10tok")].tolist() == [1.0, 0.0]


def test_a_token_budget_ends_at_the_first_memory_that_does_not_fit() -> None:
    wanted = Wanted(depths=(1,), budgets=(10, 12, 100), lengths=LENGTHS)
    measured = measure({"q": run_line("a", "b", "c", "unknown")}, [judged_query("q", "a", "c")], wanted)
    found = dict(zip(measured.measures, measured.values[0].tolist(), strict=True))
    # a takes 5 tokens, b 7, c 1: with 10 b does not fit, and nothing behind it is looked at.
    assert (found["recall@10tok"], found["recall@12tok"], found["recall@100tok"]) == (0.5, 0.5, 1.0)


def test_what_the_bundle_kept_is_measured_where_a_run_tells_it() -> None:
    queries = [judged_query("q", "a", "b"), judged_query("r", "a")]
    run = {"q": run_line("a", "b", selected=("b", "x")), "r": run_line("a")}
    measured = measure(run, queries, Wanted())
    assert measured.values[:, measured.measures.index("recall@bundle")].tolist() == [0.5, 0.0]
    assert "recall@bundle" not in measure({"r": run_line("a")}, queries, Wanted()).measures


def test_a_query_without_a_line_counts_as_nothing() -> None:
    measured = measure({"q": run_line("a")}, [judged_query("q", "a"), judged_query("gone", "a")], Wanted())
    assert measured.missing == 1
    assert measured.values[1].tolist() == [0.0] * len(measured.measures)


def test_only_queries_with_evidence_that_are_scored_count() -> None:
    queries = [judged_query("q", "a"), judged_query("none"), judged_query("trick", "a", scored=False)]
    assert [query.id for query in judged(queries)] == ["q"]
    assert [query.id for query in judged(queries, all_categories=True)] == ["q", "trick"]
    with pytest.raises(EvaluationError, match=r"^Q: no query counts"):
        measure({"none": run_line("a")}, judged(queries[1:]), Wanted(), source="Q")
