"""Fusion of lists, decay, passages and memories that the index does not hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.candidates.fuse import (
    WITH_TEXT,
    WITHIN,
    Decay,
    Fusing,
    Method,
    decay_of,
    fuse,
    fused_with_unindexed,
    newest_favoured,
)
from orion_recall.scoring.candidates import Candidate
from orion_recall.source_specs import source_names
from orion_recall.values import Hit, MemoryView, SourceName, SourceReport
from tests.samples.recall_fakes import NOW, Shelf, hit, key, profile, report, search_pass, view

HOUR = 3600.0


def with_decay(floor: float, **changes: int) -> Profile:
    return profile(
        fusion={"method": "bm25_decay"},
        time_decay_lambda_per_hour=0.01,
        time_decay_half_life_hours=None,
        recency_floor=floor,
        **changes,
    )


def paper(floor: float) -> Decay:
    return decay_of(with_decay(floor), NOW)


def aged(name: str, hours: float) -> MemoryView:
    return view(name, ts=NOW - hours * HOUR)


def test_the_decay_has_a_floor_and_undated_memories_a_half() -> None:
    bounded = paper(0.05)
    assert paper(0.0)(aged("a", 24 * 30)) < 0.001
    assert bounded(aged("a", 24 * 30)) == 0.05
    assert bounded(view("b", ts=None)) == 0.5
    assert bounded(aged("c", -5)) == 1.0


async def test_the_limit_keeps_what_is_best_after_the_decay(tokens: TokenCounter) -> None:
    newer = [f"new {place}" for place in range(10)]
    held = Shelf(aged("old", 1000.0), *[aged(name, 1.0) for name in newer])
    pool = search_pass(tokens, with_decay(0.0, rank_pool=10, max_total_items=1), readers=(held,))
    unread = Candidate(key=3, fused=0.9)
    pool.candidates = [
        Candidate(key=key("old"), fused=1.0),
        unread,
        *(Candidate(key=key(name), fused=0.5) for name in newer),
    ]
    kept = await newest_favoured(pool)
    assert {(one.key, one.fused) for one in kept} == {(key(name), 0.5) for name in newer}


def weighted(**changes: float) -> dict[SourceName, float]:
    """Every source counts one, but for the changes."""
    return {name: changes.get(name, 1.0) for name in source_names()}


ONE = weighted()
SCORES = st.dictionaries(st.sampled_from("abcdefghij"), st.sampled_from([0.0, 0.25, 0.5, 1.0, 17.0]), max_size=8)
REPORTS = st.tuples(SCORES, SCORES, SCORES, SCORES).map(
    lambda found: [report(name, scores) for name, scores in zip(source_names(), found, strict=True)]
)
METHODS: tuple[Method, ...] = ("rrf", "min_max", "bm25_decay")


def names_by_fused(reports: list[SourceReport], **changes: float) -> dict[str, float]:
    """Candidates by rrf with k = 60, by name, best first."""
    names = {key(name): name for name in "abcdefghij"}
    fused = fuse(reports, Fusing(method="rrf", weights=weighted(**changes)))
    return {names[candidate.key]: candidate.fused for candidate in fused}


def test_ranks_one_three_and_five_make_0_0477_of_the_best_possible():
    reports = [
        report("vector", {"a": 0.9, "b": 0.8, "c": 0.7}),
        report("lexical", {"b": 9.0, "c": 8.0, "a": 7.0, "d": 6.0}),
        report("rdf", {"e": 5.0, "d": 4.0, "c": 3.0, "b": 2.0, "a": 1.0}),
    ]
    raw = 1 / (60 + 1) + 1 / (60 + 3) + 1 / (60 + 5)
    best_possible = 3 / (60 + 1)
    assert raw == pytest.approx(0.0477, abs=5e-5)
    fused = names_by_fused(reports)["a"]
    assert fused == pytest.approx(raw / best_possible)
    assert fused * best_possible == pytest.approx(0.0477, abs=5e-5)


def test_min_max_stretches_each_list_and_weighs_it():
    """0 is as far below the last as the hits are apart: a cosine of 0, and no BM25 at all."""
    reports = [report("vector", {"a": 0.9, "b": 0.6, "c": 0.3}), report("lexical", {"b": 20.0, "c": 10.0})]
    fused = fuse(reports, Fusing(method="min_max", weights=weighted(lexical=3.0)))
    by_key = {candidate.key: candidate.fused for candidate in fused}
    assert by_key == {
        key("a"): pytest.approx(1 / 4),
        key("b"): pytest.approx((2 / 3 + 3) / 4),
        key("c"): pytest.approx((1 / 3 + 1.5) / 4),
    }


def test_the_first_of_a_list_that_bring_a_memory_go_on_beyond_the_limit_and_no_others():
    memory = view("x")
    rows = tuple(hit(f"row {place}", 0.9 - place / 100, read=lambda: memory) for place in range(WITH_TEXT + 5))
    light = SourceReport(source="sql_timeline", status="ok", hits=rows)
    heavy = report("vector", {f"own {place}": 0.9 - place / 100 for place in range(30)})
    fused = fuse([heavy, light], Fusing(method="min_max", weights=weighted(sql_timeline=0.01)), limit=10)
    assert [one.key for one in fused[:10]] == [key(f"own {place}") for place in range(10)]
    assert [one.key for one in fused[10:]] == [one.key for one in rows[:WITH_TEXT]]
    alone = fuse([heavy], Fusing(method="min_max", weights=ONE), limit=10)
    assert len(alone) == 10


@pytest.mark.parametrize("method", METHODS)
def test_what_the_index_does_not_hold_is_fused_as_if_the_dense_list_had_it_at_its_cosine(method: Method):
    """Its own light list counts by its weight; lists that could never have found it do not count at all."""
    own = {f"own {place}": 0.8 - place / 100 for place in range(20)}
    reports = [
        report("vector", own),
        report("lexical", {name: 10 * score for name, score in own.items()}),
        report("rdf", {"near": 1.0, "far": 1.0, "unknown": 1.0}),
    ]
    by, cosines = Fusing(method=method, weights=weighted(rdf=0.1)), {key("near"): 0.9, key("far"): 0.1}
    kept = [(Candidate(key=key(name), fused=0.07), view(name)) for name in ("unknown", "far", "near")]
    near, far, unknown = fused_with_unindexed(kept, {one.key for one, _ in kept}, cosines, reports, (), by)
    assert near[0].fused == pytest.approx(1.0)
    last = {"rrf": 61 / 81, "min_max": 0.0, "bm25_decay": 0.1 / 0.8}[method]
    assert far[0].fused == pytest.approx((last + 0.1) / 1.1)
    assert unknown[0].fused == 0.07, "without a cosine there is nothing to compare"


@pytest.mark.parametrize(
    ("scores", "weights", "best"),
    [
        ({"vector": (1.0, 0.5), "lexical": (0.5, 1.0)}, {}, "vector"),
        ({"vector": (0.5, 1.0), "lexical": (1.0, 0.5)}, {}, "lexical"),
        ({"vector": (1.0, 0.5), "lexical": (1.0, 0.5)}, {"vector": 2.0}, "vector"),
        ({"vector": (1.0, 0.5), "lexical": (1.0, 0.5)}, {"lexical": 2.0}, "lexical"),
        ({"vector": (1.0, 0.5), "lexical": (1.0, 0.5)}, {}, "lexical"),
    ],
)
def test_the_best_source_is_the_one_that_ranked_it_best_then_the_heavier_then_the_first_by_name(
    scores: dict[SourceName, tuple[float, float]], weights: dict[str, float], best: SourceName
):
    reports = [report(name, {"a": own, "other": rival}) for name, (own, rival) in scores.items()]
    fused = fuse(reports, Fusing(method="rrf", weights=weighted(**weights)))
    assert next(candidate for candidate in fused if candidate.key == key("a")).best_source == best


def test_a_memory_that_one_source_brings_twice_counts_once_at_its_better_place():
    twice = SourceReport(source="sql_timeline", status="ok", hits=(hit("a", 3.0), hit("b", 2.0), hit("a", 1.0)))
    once = SourceReport(source="sql_timeline", status="ok", hits=(hit("a", 3.0), hit("b", 2.0)))
    fused = fuse([twice], Fusing(method="rrf", weights=ONE))
    assert [(candidate.key, candidate.fused, candidate.ranks) for candidate in fused] == [
        (candidate.key, candidate.fused, candidate.ranks)
        for candidate in fuse([once], Fusing(method="rrf", weights=ONE))
    ]


@pytest.mark.parametrize("method", METHODS)
@given(reports=REPORTS, seed=st.integers())
def test_fused_is_in_the_unit_interval_and_the_order_of_the_reports_does_not_matter(
    method: Method, reports: list[SourceReport], seed: int
):
    fused = fuse(reports, Fusing(method=method, weights=ONE))
    assert {candidate.key for candidate in fused} == {each.key for one in reports for each in one.hits}
    assert all(0 <= candidate.fused <= 1 + 1e-9 for candidate in fused)
    assert [round(candidate.fused, 9) for candidate in fused] == sorted(
        (round(candidate.fused, 9) for candidate in fused), reverse=True
    )
    shuffled = random.Random(seed).sample(reports, len(reports))
    again = fuse(shuffled, Fusing(method=method, weights=ONE))
    assert [(one.key, one.best_source) for one in again] == [(one.key, one.best_source) for one in fused]


@pytest.mark.parametrize("method", METHODS)
@given(reports=REPORTS, within=REPORTS, weight=st.floats(0, 3))
def test_further_lists_never_lift_a_memory_beyond_the_scale(
    method: Method, reports: list[SourceReport], within: list[SourceReport], weight: float
):
    fused = fuse(reports, Fusing(method=method, weights=ONE, within_weight=weight), within=within)
    assert {one.key for one in fused} == {each.key for one in (*reports, *within) for each in one.hits}
    assert all(-1e-9 <= one.fused <= 1 + 1e-9 for one in fused)
    first = fuse(reports, Fusing(method=method, weights=ONE))
    without = fuse(reports, Fusing(method=method, weights=ONE), within=within)
    place = {one.key: one.fused for one in without}
    assert all(place[one.key] == pytest.approx(one.fused) for one in first), "without a weight they count nothing"


@given(reports=REPORTS, better=st.sampled_from(source_names()))
def test_a_better_rank_in_one_list_never_lowers_a_memory(reports: list[SourceReport], better: SourceName):
    """With a method of ranks: the best of one list comes out no lower than it did from the middle of it."""
    plain = {one.key: one.fused for one in fuse(reports, Fusing(method="rrf", weights=ONE))}
    lifted = [
        report(one.source, {"a": 99.0, **{name: each.score for each in one.hits for name in "bcdefghij"
                                          if key(name) == each.key}})
        if one.source == better and any(each.key == key("a") for each in one.hits)
        else one
        for one in reports
    ]  # fmt: skip
    if key("a") in plain:
        again = {one.key: one.fused for one in fuse(lifted, Fusing(method="rrf", weights=ONE))}
        assert again[key("a")] >= plain[key("a")] - 1e-12


def test_bm25_with_decay_adds_shares_of_the_best_and_keeps_ratios():
    only = report("lexical", {"a": 8.0, "b": 4.0, "c": 2.0})
    shares = [candidate.fused for candidate in fuse([only], Fusing(method="bm25_decay", weights=ONE))]
    assert shares == [1.0, 0.5, 0.25]
    both = fuse([only, report("vector", {"c": 0.8})], Fusing(method="bm25_decay", weights=weighted(lexical=3.0)))
    assert [candidate.key for candidate in both] == [key("a"), key("c"), key("b")]
    assert both[1].fused == pytest.approx((3 * 0.25 + 1) / 4)


def test_the_first_of_a_further_list_are_kept_beyond_the_limit() -> None:
    """What was found inside a named time is ranked in full, whatever was found of all times."""
    first = SourceReport(source="vector", status="ok", hits=tuple(Hit(key, 1 - key / 100) for key in range(1, 31)))
    inside = SourceReport(source="vector", status="ok", hits=tuple(Hit(key, 0.5) for key in range(100, 130)))
    pool = fuse([first], Fusing(method="rrf", weights=weighted()), limit=10, within=[inside])
    assert [candidate.key for candidate in pool[:10]] == list(range(1, 11))
    assert [candidate.key for candidate in pool if candidate.is_kept] == list(range(100, 100 + WITHIN))
    assert len(pool) == 10 + WITHIN


def test_the_first_of_every_kind_has_the_whole_of_its_source_and_kinds_weigh_as_one() -> None:
    world = tuple(Hit(key, 0.9 - key / 1000) for key in range(1, 101))
    opinion = (Hit(501, 0.2), Hit(502, 0.1))
    for method in METHODS:
        report = SourceReport(source="vector", status="ok", hits=(*world, *opinion), lists=(world, opinion))
        pool = fuse([report], Fusing(method=method, weights=weighted()), limit=4)
        assert {candidate.key for candidate in pool} >= {1, 501}
        assert [candidate.fused for candidate in pool if candidate.key in (1, 501)] == [1.0, 1.0]
