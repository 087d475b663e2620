"""Measures of a run as they are defined, scores, comparisons, the everyday pass, and types of failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import JudgedQuery, RunLine
from orion_recall.evaluation.everyday import by_category, is_everyday, judge, judge_run, summary
from orion_recall.evaluation.measures import (
    check_known,
    check_same,
    compare,
    depths_with,
    failure_types,
    judged,
    measure,
    most_changed,
    score,
    worst,
)
from tests.samples.evaluation_samples import judged_query, run_line

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
    measured = measure({"q": run_line(*ranked)}, [judged_query("q", *evidence)], (k,))
    found = dict(zip(measured.measures, measured.values[0].tolist(), strict=True))
    assert found == pytest.approx(by_definition(ranked, evidence, k), abs=1e-12)


def test_only_queries_with_evidence_that_are_scored_count() -> None:
    queries = [judged_query("q", "a"), judged_query("none"), judged_query("trick", "a", scored=False)]
    assert [query.id for query in judged(queries)] == ["q"]
    assert [query.id for query in judged(queries, all_categories=True)] == ["q", "trick"]
    with pytest.raises(EvaluationError, match=r"^Q: no query counts"):
        measure({"none": run_line("a")}, judged(queries[1:]), source="Q")


@pytest.mark.parametrize("by", ["recall", "recall@", "recall@0", "f1@5", "recall@bundle", "MRR"])
def test_a_measure_that_there_is_not_is_refused(by: str) -> None:
    with pytest.raises(SettingsError, match="is not measured"):
        depths_with(by, (5,))


QUERIES = [
    judged_query("q1", "a", category="near"),
    judged_query("q2", "b", category="far"),
    judged_query("q3", "c", category="far"),
    judged_query("q4", "d", category="far"),
]
A = {"q1": run_line("a"), "q2": run_line("x"), "q3": run_line("c"), "q4": run_line("x", "d")}
B = {"q1": run_line("a"), "q2": run_line("b"), "q3": run_line("x"), "q4": run_line("d")}
DEPTHS = (1, 2)


def test_scores_are_means_over_all_queries_and_by_category() -> None:
    overall, by_category = score(measure(A, QUERIES, DEPTHS))
    assert (overall.queries, overall.means["recall@1"].mean, overall.means["recall@2"].mean) == (4, 0.5, 0.75)
    assert list(by_category) == ["far", "near"]
    assert (by_category["near"].queries, by_category["near"].means["recall@1"].mean) == (1, 1.0)
    assert by_category["far"].means["recall@1"].mean == pytest.approx(1 / 3)
    for scores in (overall, *by_category.values()):
        for mean in scores.means.values():
            assert mean.low <= mean.mean <= mean.high
    assert overall.means["recall@1"].low < overall.means["recall@1"].high


def test_a_comparison_says_who_wins_where() -> None:
    between = compare(measure(A, QUERIES, DEPTHS), measure(B, QUERIES, DEPTHS))
    first = between["recall@1"]
    assert (first.a, first.b, first.difference.mean) == (0.5, 0.75, 0.25)
    assert (first.wins, first.ties, first.losses) == (2, 1, 1)
    assert first.difference.low <= 0 <= first.difference.high
    assert first.p > 0.5
    reverse = compare(measure(B, QUERIES, DEPTHS), measure(A, QUERIES, DEPTHS))["recall@1"]
    assert (reverse.difference.mean, reverse.wins, reverse.losses, reverse.p) == (-0.25, 1, 2, first.p)


def test_the_most_changed_come_first_and_the_unchanged_not_at_all() -> None:
    a, b = measure(A, QUERIES, DEPTHS), measure(B, QUERIES, DEPTHS)
    changed = most_changed(a, b, "mrr", 10)
    assert [(one.id, a, b) for one, a, b in changed] == [("q2", 0, 1), ("q3", 1, 0), ("q4", 0.5, 1)]
    assert [one.id for one, _, _ in most_changed(a, b, "mrr", 1)] == ["q2"]


def test_a_run_over_other_queries_is_refused() -> None:
    with pytest.raises(EvaluationError, match=r"^r:1: query_id 'q4' is not in Q$"):
        check_known(Path("r"), A, Path("Q"), QUERIES[:3])
    check_known(Path("r"), A, Path("Q"), QUERIES)
    fewer = {"q1": A["q1"], "q9": A["q2"]}
    with pytest.raises(EvaluationError, match=r"3 only in a \(such as 'q2'\), 1 only in b \(such as 'q9'\)"):
        check_same((Path("a"), Path("b")), A, fewer)
    check_same((Path("a"), Path("b")), A, B)


def everyday(category: str = "fact", *evidence: str, **conditions: Any) -> JudgedQuery:
    given = {name: frozenset(value) if isinstance(value, str) else value for name, value in conditions.items()}
    return judged_query("q", *evidence, category=category).model_copy(update=given)


@pytest.mark.parametrize(
    ("query", "selected", "unsure", "violated"),
    [
        (everyday(none=True), "", False, ()),
        (everyday(none=True), "abc", True, ()),
        (everyday(none=True), "abcd", True, ("none",)),
        (everyday(none=True), "a", False, ("none",)),
        (everyday("fact", "a", "b"), "xab", False, ()),
        (everyday("fact", "a", "b"), "a", True, ("evidence",)),
        (everyday("list", *"abcdefghij"), "abcdefg", False, ()),
        (everyday("list", *"abcdefghij"), "abcdef", False, ("evidence",)),
        (everyday("recap", *"abcdefghijklmnopqrst"), "abcdefghij", False, ()),
        (everyday("fact", "a", first="a"), "xa", False, ("first",)),
        (everyday("fact", "a", first="a"), "", False, ("evidence", "first")),
        (everyday("fact", "a", first="a", stale="o"), "ao", False, ()),
        (everyday("fact", "a", stale="o"), "oa", False, ("stale",)),
        (everyday("fact", "a", "o", stale="o"), "oa", False, ("stale",)),
        (everyday("history", "a", stale="o"), "o", False, ("evidence", "stale")),
        (everyday("fact", "a", allowed="b", outside=True), "abx", False, ("outside",)),
        (everyday("fact", "a", allowed="bc", outside=True), "abcx", False, ()),
        (everyday("fact", "a"), "aab", False, ()),
    ],
)
def test_a_bundle_passes_when_it_meets_all_that_its_query_states(
    query: JudgedQuery, selected: str, unsure: bool, violated: tuple[str, ...]
) -> None:
    line = RunLine(ranked=(), selected=tuple(selected), unsure=unsure)
    assert judge(query, line).violated == violated


def test_everyday_figures_count_what_was_wrongly_answered_empty_or_unsure() -> None:
    queries = [
        everyday("fact", "a").model_copy(update={"id": "right"}),
        everyday("fact", "a").model_copy(update={"id": "gone"}),
        everyday("fact", "a").model_copy(update={"id": "empty"}),
        everyday("none", none=True).model_copy(update={"id": "false"}),
        everyday("none", none=True).model_copy(update={"id": "nearest"}),
        everyday("fact", "a").model_copy(update={"id": "not scored", "scored": False}),
    ]
    run = {
        "right": RunLine(ranked=(), selected=("a", "x"), unsure=True),
        "empty": RunLine(ranked=(), selected=()),
        "false": RunLine(ranked=(), selected=("x",)),
        "nearest": RunLine(ranked=(), selected=("x", "y"), unsure=True),
    }
    judgements = judge_run(queries, run)
    figures = summary(judgements)
    assert (is_everyday(queries), is_everyday(queries[:2]), len(judgements)) == (True, False, 5)
    assert (figures["n"], figures["pass"], figures["recall"], figures["precision"]) == (
        5,
        0.4,
        pytest.approx(1 / 3),
        0.5,
    )
    assert (figures["false"], figures["empty"], figures["unsure"], figures["first"]) == (1, 2, 1, None)
    assert [one.violated for one in judgements][1] == ("missing", "evidence")
    assert list(by_category(judgements)) == ["fact", "none"]


@pytest.mark.parametrize(
    ("question", "missed", "expected"),
    [
        ("What did we say about ML?", "Machine learning is next on the list.", ("semantic_gap",)),
        ("What about quantum computing?", "The quantum course begins in May.", ("several_words",)),
        ("Which gardens flood?", "A garden floods.", ()),
        ("What was that thing we discussed?", "We discussed a thing.", ("pronoun",)),
        ("Who sold the boat?", "She sold the boat.", ("pronoun",)),
    ],
)
def test_the_words_tell_the_type(question: str, missed: str, expected: tuple[str, ...]) -> None:
    assert failure_types(question, [missed]) == expected


def test_the_worst_queries_come_first_with_the_ranks_of_their_evidence() -> None:
    texts = {("c", "b"): "what about q2?", ("c", "d"): "Nothing alike."}
    found, failures = worst(measure(A, QUERIES, DEPTHS), A, "recall@1", texts)
    assert [(one.query.id, one.value, one.ranks) for one in found] == [
        ("q2", 0.0, {"b": None}),
        ("q4", 0.0, {"d": 2}),
    ]
    assert (found[0].failures, found[1].failures, failures) == ((), (), {})
    gone = {"q4": run_line("x")}
    (one,), failures = worst(measure(gone, QUERIES[3:], DEPTHS), gone, "mrr", texts)
    assert (one.failures, failures) == (("semantic_gap",), {"semantic_gap": 1})
