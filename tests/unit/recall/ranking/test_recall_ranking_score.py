from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.ranking.score import combine, score_candidates
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.part_values import QueryFacts, recency
from orion_recall.values import Interval, MemoryView, QuestionTime
from tests.samples.recall_fakes import NOW, key, profile, view

HOUR = 3600.0
SENTENCE = "the harbour crane on the north quay needs a new gearbox and two new cables before friday noon says bo"
TEXTS = st.lists(st.sampled_from(["crane", "gearbox", "ana", "bo", "harbour", "👍", ""]), max_size=6).map(" ".join)


def candidate(name: str, fused: float = 0.5, similarity: float | None = None, **fields: object) -> tuple[
    Candidate, MemoryView
]:  # fmt: skip
    scores = {} if similarity is None else {"vector": similarity}
    return Candidate(key=key(name), fused=fused, scores=scores), view(name, **fields)  # pyright: ignore[reportArgumentType]


def test_recency_halves_with_every_half_life():
    ages = [recency(NOW - age * HOUR, NOW, half_life_hours=24, minimum=0.0) for age in (0, 24, 48, 72)]
    assert ages == pytest.approx([1.0, 0.5, 0.25, 0.125])


def test_recency_has_a_floor_is_half_when_undated_and_whole_for_what_lies_ahead():
    assert recency(NOW - 1e9, NOW, half_life_hours=24, minimum=0.05) == 0.05
    assert recency(None, NOW, half_life_hours=24, minimum=0.05) == 0.5
    assert recency(NOW + 1e9, NOW, half_life_hours=24, minimum=0.05) == 1.0


@given(
    st.floats(-6e10, 6e10), st.floats(-6e10, 6e10), st.floats(1e-6, 1e6), st.floats(0, 1),
)  # fmt: skip
def test_recency_is_between_its_floor_and_one(ts: float, now: float, half_life_hours: float, floor: float):
    assert floor <= recency(ts, now, half_life_hours=half_life_hours, minimum=floor) <= 1


def test_the_score_is_the_weighted_mean_of_the_parts():
    weights = {"fusion": 0.6, "similarity": 0.2, "recency": 0.2}
    assert combine({"fusion": 1.0, "similarity": 0.5, "recency": 0.25}, weights) == pytest.approx(0.75)


def test_weights_are_renormalised_over_the_parts_that_are_present():
    weights = {"fusion": 0.6, "similarity": 0.2, "recency": 0.2}
    assert combine({"fusion": 1.0, "recency": 0.0}, weights) == pytest.approx(0.75)
    assert combine({"recency": 0.5}, weights) == pytest.approx(0.5)
    assert combine({}, weights) == 0.0
    assert combine({"fusion": 1.0}, {"fusion": 0.0}) == 0.0


PARTS = ("fusion", "similarity", "recency", "speaker")


@given(
    st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1)),
    st.fixed_dictionaries({name: st.just(0.0) | st.floats(1e-6, 100) for name in PARTS}),
)
def test_a_score_is_in_the_unit_interval_and_between_its_parts(parts: dict[str, float], weights: dict[str, float]):
    total = combine(parts, weights)
    assert 0 <= total <= 1
    if any(weights[name] > 0 for name in parts):
        assert min(parts.values()) - 1e-6 <= total <= max(parts.values()) + 1e-6


def test_the_best_fused_candidate_has_the_whole_fusion_part():
    made = score_candidates([candidate("a", 0.4), candidate("b", 0.2)], profile(), QueryFacts(now=NOW))
    assert [item.parts["fusion"] for item in made] == [1.0, 0.5]


def test_similarity_is_absent_when_the_dense_search_found_nothing_and_the_farthest_for_what_it_missed():
    (alone,) = score_candidates([candidate("a")], profile(), QueryFacts(now=NOW))
    assert "similarity" not in alone.parts
    made = score_candidates(
        [candidate("a", similarity=0.9), candidate("b", similarity=0.3), candidate("c")],
        profile(),
        QueryFacts(now=NOW),
    )
    assert {item.memory.id: item.parts["similarity"] for item in made} == {"a": 0.9, "b": 0.3, "c": 0.3}


def test_a_negative_cosine_counts_as_none():
    (item,) = score_candidates([candidate("a", similarity=-0.2)], profile(), QueryFacts(now=NOW))
    assert item.parts["similarity"] == 0.0


def test_a_turn_beside_a_close_one_has_that_ones_similarity_as_its_neighbour_part():
    pool = [candidate("a", similarity=0.3, beside=(key("near"),)), candidate("b", similarity=0.2)]
    made = score_candidates(pool, profile(), QueryFacts(now=NOW, similarities={key("near"): 0.8}))
    assert {item.memory.id: item.parts["neighbour"] for item in made} == {"a": 0.8, "b": 0.2}


def test_the_speaker_part_is_there_only_when_the_question_names_one():
    pool = [candidate("a", speaker="Ana"), candidate("b", speaker="Bo")]
    named = score_candidates(pool, profile(), QueryFacts(now=NOW, named_speaker="Ana"))
    assert {item.memory.id: item.parts["speaker"] for item in named} == {"a": 1.0, "b": 0.0}
    assert all("speaker" not in item.parts for item in score_candidates(pool, profile(), QueryFacts(now=NOW)))


def test_equal_scores_are_newer_first_then_dated_first_then_by_id():
    only_fusion = profile(ranking={"fusion": 1.0, "similarity": 0.0, "recency": 0.0})
    pool = [
        candidate("d"), candidate("c"), candidate("old", ts=10.0), candidate("new", ts=20.0),
        candidate("epoch", ts=0.0), candidate("before", ts=-5.0),
    ]  # fmt: skip
    ids = [item.memory.id for item in score_candidates(pool, only_fusion, QueryFacts(now=NOW))]
    assert ids == ["new", "old", "epoch", "before", "c", "d"]


def test_scores_that_differ_beyond_the_sixth_digit_are_equal():
    only_similarity = profile(ranking={"fusion": 0.0, "similarity": 1.0, "recency": 0.0})
    pool = [candidate("a", similarity=0.50000001, ts=1.0), candidate("b", similarity=0.5, ts=2.0)]
    assert [item.memory.id for item in score_candidates(pool, only_similarity, QueryFacts(now=NOW))] == ["b", "a"]


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.tuples(
            st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([None, 0.2, 0.9]), st.sampled_from([None, NOW, 0.0])
        ),
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_order_is_total_and_does_not_depend_on_the_order_given(
    found: dict[str, tuple[float, float | None, float | None]], dice: random.Random
):
    pool = [candidate(name, fused, similarity, ts=ts) for name, (fused, similarity, ts) in found.items()]
    ranked = score_candidates(pool, profile(), QueryFacts(now=NOW))
    dice.shuffle(pool)
    again = score_candidates(pool, profile(), QueryFacts(now=NOW))
    assert [(item.memory.id, item.score) for item in again] == [(item.memory.id, item.score) for item in ranked]
    assert all(0 <= item.score <= 1 for item in ranked)


DAY = 24 * HOUR
LAST_WEEK = Interval(start=NOW - 10 * DAY, end=NOW - 3 * DAY, kind="relative", words="last week")


def test_the_time_that_the_question_names_is_a_part_of_every_dated_memory():
    made = score_candidates(
        [
            candidate("inside", ts=NOW - 5 * DAY),
            candidate("beside", ts=NOW - 2.5 * DAY),
            candidate("long", ts=NOW - 20 * DAY, until=NOW - 9 * DAY),
            candidate("outside", ts=NOW - 20 * DAY),
            candidate("undated"),
        ],
        profile(ranking={"fusion": 0.5, "time": 0.4}),
        QueryFacts(now=NOW, time=QuestionTime(intervals=(LAST_WEEK,))),
    )
    parts = {item.memory.id: item.parts.get("time") for item in made}
    assert parts == {"inside": 1.0, "beside": 0.9, "long": 1.0, "outside": 0.0, "undated": None}
    scores = {item.memory.id: item.score for item in made}
    assert scores["inside"] > scores["undated"] > scores["outside"]


def test_a_question_without_a_time_has_no_such_part():
    (item,) = score_candidates([candidate("a", ts=NOW)], profile(), QueryFacts(now=NOW))
    assert not {"time", "tells_time"} & set(item.parts)


def test_what_says_something_is_preferred_to_what_asks():
    pair = [candidate("a", text="Is the crane broken?"), candidate("b", text="The crane is broken.")]
    made = score_candidates(pair, profile(ranking={"fusion": 0.5, "asks_nothing": 0.2}), QueryFacts(now=NOW))
    assert [(item.memory.id, item.parts["asks_nothing"]) for item in made] == [("b", 1.0), ("a", 0.0)]


@pytest.mark.parametrize(("named", "session"), [(1, "one"), (-1, "two"), (2, "two"), (-2, "one"), (3, None)])
def test_a_session_is_named_by_its_place_among_those_of_what_was_found(named: int, session: str | None):
    pair = [
        candidate(name, ts=NOW - age * DAY, session_id=name) for name, age in (("one", 9), ("two", 2), ("own", 0))
    ]
    made = score_candidates(
        pair, profile(), QueryFacts(now=NOW, time=QuestionTime(session=named), session_id="own")
    )
    assert {item.memory.id for item in made if item.parts.get("time")} == {session} - {None}


def test_the_path_part_is_there_only_when_there_is_a_path():
    one, other = candidate("on"), candidate("beside")
    used = profile(ranking={"fusion": 0.5, "path": 0.3})
    assert all("path" not in item.parts for item in score_candidates([one, other], used, QueryFacts(now=NOW)))
    one[0].path = 0.8
    assert {
        item.memory.id: item.parts["path"] for item in score_candidates([one, other], used, QueryFacts(now=NOW))
    } == {
        "on": 0.8,
        "beside": 0.0,
    }


def test_what_was_followed_is_a_part_of_every_candidate():
    followed = {"links": {key("a"): 0.5}, "second_step": {}}
    used = profile(ranking={"fusion": 0.5, "links": 0.5, "second_step": 0.1})
    scored = score_candidates([candidate("a"), candidate("b")], used, QueryFacts(now=NOW, followed=followed))
    assert [(item.memory.id, item.parts["links"], item.parts["second_step"]) for item in scored] == [
        ("a", 0.5, 0.0),
        ("b", 0.0, 0.0),
    ]


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.none() | st.floats(0, 1), st.none() | st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=8,
    )
)
def test_every_score_is_that_of_the_parts_that_the_memory_has(
    given: list[tuple[float, float | None, float | None]],
):
    found = [
        candidate(f"m{place}", fused, ts=None if age is None else NOW - age)
        for place, (fused, _, age) in enumerate(given)
    ]
    late = {key(f"m{place}"): near for place, (_, near, _) in enumerate(given) if near is not None}
    used = profile(ranking={"fusion": 0.5, "late": 1.0, "recency": 0.25})

    for item in score_candidates(found, used, QueryFacts(now=NOW, late=late)):
        assert item.score == pytest.approx(combine(item.parts, item.weights), abs=2e-6)
        assert item.parts.get("late") == late.get(item.candidate.key)
        assert None not in item.parts.values()
        assert item.parts["recency"] == recency(
            item.memory.ts, NOW, half_life_hours=used.half_life_hours, minimum=used.recency_floor
        )


def test_hindsights_weighted_sum_is_that_of_its_four_parts():
    """0.6 cross-encoder, 0.2 rank fusion, 0.1 temporal proximity, 0.1 recency; an absent one is left out."""
    weights = profile(
        ranking={"fusion": 0.2, "similarity": 0.0, "time_proximity": 0.1, "recency": 0.1},
        rerank={"enabled": True, "weight": 0.6},
    ).weights(reranked=True)
    parts = {"rerank": 0.9, "fusion": 1.0, "time_proximity": 0.5, "recency": 0.25}
    assert combine(parts, weights) == pytest.approx(0.6 * 0.9 + 0.2 * 1.0 + 0.1 * 0.5 + 0.1 * 0.25)
    del parts["time_proximity"]
    assert combine(parts, weights) == pytest.approx((0.6 * 0.9 + 0.2 * 1.0 + 0.1 * 0.25) / 0.9, abs=1e-6)
