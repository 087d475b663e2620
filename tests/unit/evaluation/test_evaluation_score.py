from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.measures import Wanted, measure
from orion_recall.evaluation.score import check_known, check_same, compare, most_changed, score
from tests.samples.evaluation_samples import judged_query, run_line

QUERIES = [
    judged_query("q1", "a", category="near"),
    judged_query("q2", "b", category="far"),
    judged_query("q3", "c", category="far"),
    judged_query("q4", "d", category="far"),
]
A = {"q1": run_line("a"), "q2": run_line("x"), "q3": run_line("c"), "q4": run_line("x", "d")}
B = {"q1": run_line("a"), "q2": run_line("b"), "q3": run_line("x"), "q4": run_line("d")}
WANTED = Wanted(depths=(1, 2))


def test_scores_are_means_over_all_queries_and_by_category() -> None:
    overall, by_category = score(measure(A, QUERIES, WANTED))
    assert (overall.queries, overall.means["recall@1"].mean, overall.means["recall@2"].mean) == (4, 0.5, 0.75)
    assert list(by_category) == ["far", "near"]
    assert (by_category["near"].queries, by_category["near"].means["recall@1"].mean) == (1, 1.0)
    assert by_category["far"].means["recall@1"].mean == pytest.approx(1 / 3)
    for scores in (overall, *by_category.values()):
        for mean in scores.means.values():
            assert mean.low <= mean.mean <= mean.high
    assert overall.means["recall@1"].low < overall.means["recall@1"].high


def test_a_comparison_says_who_wins_where() -> None:
    between = compare(measure(A, QUERIES, WANTED), measure(B, QUERIES, WANTED))
    first = between["recall@1"]
    assert (first.a, first.b, first.difference.mean) == (0.5, 0.75, 0.25)
    assert (first.wins, first.ties, first.losses) == (2, 1, 1)
    assert first.difference.low <= 0 <= first.difference.high
    assert first.p > 0.5
    reverse = compare(measure(B, QUERIES, WANTED), measure(A, QUERIES, WANTED))["recall@1"]
    assert (reverse.difference.mean, reverse.wins, reverse.losses, reverse.p) == (-0.25, 1, 2, first.p)


def test_a_steady_gain_over_many_queries_is_significant() -> None:
    queries = [judged_query(f"q{number}", "a") for number in range(40)]
    before = measure({query.id: run_line("x", "a") for query in queries}, queries, WANTED)
    after = measure({query.id: run_line("a") for query in queries}, queries, WANTED)
    between = compare(before, after)
    assert between["mrr"].p < 0.001
    assert between["mrr"].difference.low > 0
    assert (between["recall@2"].p, between["recall@2"].ties) == (1.0, 40)


def test_only_measures_of_both_runs_are_compared() -> None:
    with_bundle = {name: run_line(*line.ranked, selected=line.ranked) for name, line in B.items()}
    between = compare(measure(A, QUERIES, WANTED), measure(with_bundle, QUERIES, WANTED))
    assert "recall@bundle" not in between
    assert between["recall@1"].b == 0.75


def test_the_most_changed_come_first_and_the_unchanged_not_at_all() -> None:
    a, b = measure(A, QUERIES, WANTED), measure(B, QUERIES, WANTED)
    changed = most_changed(a, b, "mrr", 10)
    assert [(one.query.id, one.a, one.b) for one in changed] == [("q2", 0, 1), ("q3", 1, 0), ("q4", 0.5, 1)]
    assert [one.query.id for one in most_changed(a, b, "mrr", 1)] == ["q2"]


def test_a_run_over_other_queries_is_refused() -> None:
    with pytest.raises(EvaluationError, match=r"^r:1: query_id 'q4' is not in Q$"):
        check_known(Path("r"), A, Path("Q"), QUERIES[:3])
    check_known(Path("r"), A, Path("Q"), QUERIES)
    fewer = {"q1": A["q1"], "q9": A["q2"]}
    with pytest.raises(EvaluationError, match=r"3 only in a \(such as 'q2'\), 1 only in b \(such as 'q9'\)"):
        check_same((Path("a"), Path("b")), A, fewer)
    check_same((Path("a"), Path("b")), A, B)
