"""Why a memory is not in an answer, from candidates and what became of it: the stage, and by how much."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orion_recall.contracts import CandidateV1, RecallDecisionV1
from orion_recall.decisions.memory_facts import MemoryFacts
from orion_recall.recall.report.asked import (
    Limits,
    SourceCap,
    clock_of,
    limits_of_decision,
    query_of,
    why_not_again,
)
from orion_recall.recall.report.explain import explained_decision, score_shares
from orion_recall.recall.report.sentences import why_not_sentence, why_sentences
from orion_recall.recall.report.why_not import Fate, lost_as_candidate, lost_in_search, never_found
from orion_recall.recall.report.why_not_record import lost_by_record, lost_since
from tests.samples.recall_fakes import profile

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(
    min_score=0.5,
    max_items=2,
    budget_tokens=100,
    rank_pool=64,
    source_limit=100,
    source_caps={"vector": SourceCap(most=3, key="vector_top_k", value=3)},
)
NOW = "the data as they are now"


def candidate(name: str, **fields: Any) -> CandidateV1:
    return CandidateV1.model_validate(
        {"id": name, "source": "vector", "ranks": {"vector": 1}, "fused": 0.5} | fields
    )


def decision(*candidates: CandidateV1, **fields: Any) -> RecallDecisionV1:
    values: dict[str, Any] = {
        "id": "d",
        "corr_id": "c",
        "profile": "p",
        "query": "where?",
        "selected_ids": [one.id for one in candidates if one.kept],
        "backend_counts": {},
        "latency_ms": 1.0,
        "dropped": {},
        "created_at": NOON,
        "outcome": "ok",
        "tenant": "t",
        "tokens": 80,
        "asked": {"options": {}, "scope": {"name": "global"}, "clock": NOON.isoformat()},
        "read_at": {"index": 10},
    }
    return RecallDecisionV1.model_validate(values | fields | {"candidates": list(candidates) or None})


def memory(**fields: Any) -> MemoryFacts:
    values: dict[str, Any] = {
        "id": "m", "kind": "world", "guessed_kind": None, "tags": (), "session_id": None, "user_id": None,
        "agent_id": None, "run_id": None, "at": NOON - timedelta(days=1), "recorded_at": NOON - timedelta(days=1),
        "superseded_by": None, "gone_at": None, "unread": None, "unread_at": None,
    }  # fmt: skip
    return MemoryFacts(**(values | fields))


FIRST = candidate("a", kept=True, place=1, score=0.9)
SECOND = candidate("b", kept=True, place=2, score=0.8)


@pytest.mark.parametrize(
    ("fields", "stage", "by", "unit", "word"),
    [
        ({"dropped": "max_total_items", "place": 5, "score": 0.6}, "cap", 3.0, "places", "k, max_total_items"),
        ({"dropped": "max_per_source", "place": 4, "score": 0.6}, "cap", 1.0, "places", "max_per_source"),
        ({"dropped": "repetition", "place": 3, "score": 0.6}, "cap", None, None, "max_repetition"),
        ({"dropped": "over_fetch"}, "cap", None, None, "layer"),
        ({"dropped": "token_budget", "place": 3, "score": 0.6}, "budget", None, None, "20 were left"),
        ({"dropped": "below_min_score", "score": 0.4}, "score", 0.1, "score", "min_score 0.5"),
        ({"dropped": "no_answer", "score": 0.4}, "score", None, None, "withheld"),
        ({"dropped": "unsure", "place": 5, "score": 0.6}, "cap", 3.0, "places", "nearest 2"),
        (
            {"dropped": "near_duplicate", "dropped_for": "a", "score": 0.7},
            "near_duplicate",
            0.2,
            "score",
            "same as a",
        ),
        (
            {"dropped": "superseded", "dropped_for": "b", "score": 0.85},
            "superseded",
            -0.05,
            "score",
            "a successor, b",
        ),
        ({"dropped": "near_duplicate", "dropped_for": None}, "near_duplicate", None, None, "another memory"),
        ({"dropped": "other_time"}, "time", None, None, "time"),
        ({"dropped": "not_said_by"}, "filter", None, None, "somebody else"),
        ({"dropped": "instructs_reader"}, "filter", None, None, "reader_instructions"),
        ({"dropped": None, "place": 9}, "unknown", None, None, "no reason"),
    ],
)
def test_a_candidate_was_lost_where_its_reason_says(
    fields: dict[str, Any], stage: str, by: float | None, unit: str | None, word: str
) -> None:
    told = lost_as_candidate(decision(FIRST, SECOND, candidate("m", **fields)), "m", LIMITS)
    assert told is not None
    assert (told.by_how_much, told.unit) == (by, unit)
    assert (told.stage, word in why_not_sentence(told)) == (stage, True), told


@pytest.mark.parametrize("k", [None, 1, 5, 20])
def test_what_its_source_may_not_bring_any_more_missed_the_value_of_that_key(k: int | None):
    by = profile(vector_top_k=51, max_per_source=8, max_total_items=30)
    asked = {"options": {"k": k}, "clock": NOON.isoformat()}
    of_words = [candidate(f"w{n}", source="lexical", place=n, dropped="max_total_items") for n in range(1, 10)]
    of_meaning = [candidate(f"v{n}", place=n, kept=n < 14) for n in range(10, 62)]
    lost = of_meaning[-1].model_copy(update={"dropped": "source_top_k"})
    found = decision(*of_words, *of_meaning[:-1], lost, asked=asked)
    told = lost_as_candidate(found, lost.id, limits_of_decision(found, by))
    assert told is not None
    assert (told.stage, told.by_how_much, told.unit) == ("cap", 1.0, "places")
    assert told.code == "beyond_source_top_k"
    assert told.facts == {"source": "vector", "place": 52, "most": 51, "key": "vector_top_k", "value": 51}


def test_a_cap_of_a_source_is_not_put_in_numbers_where_the_profile_is_not_known():
    found = decision(FIRST, SECOND, candidate("m", dropped="source_top_k", place=3))
    for limits in (None, LIMITS):
        told = lost_as_candidate(found, "m", limits)
        assert told is not None
        assert (told.stage, told.by_how_much, "(vector)" in why_not_sentence(told)) == ("cap", None, True)


def test_the_cap_of_a_source_names_its_key_and_what_sets_it():
    def words(**asked: Any) -> dict[str, tuple[int, str, int]]:
        found = decision(FIRST, asked={"options": asked, "clock": NOON.isoformat()})
        caps = limits_of_decision(found, by).source_caps
        return {str(name): (cap.most, cap.key, cap.value) for name, cap in caps.items()}

    by = profile(vector_top_k=12, rdf_top_k=40, sql_top_k=6, max_total_items=12)
    assert words() == {
        "vector": (12, "vector_top_k", 12),
        "lexical": (12, "vector_top_k", 12),
        "rdf": (40, "rdf_top_k", 40),
        "sql_timeline": (6, "sql_top_k", 6),
    }
    assert words(k=30)["sql_timeline"] == (30, "sql_top_k", 6)
    assert words(k=30)["rdf"] == (40, "rdf_top_k", 40)


def test_what_only_the_answer_of_now_has_was_not_handed_over():
    again = decision(FIRST, candidate("m", kept=True, place=2, score=0.8))
    told = lost_in_search(decision(FIRST), again, "m", LIMITS, Fate(ranks={"vector": 1}), data=NOW)
    assert told is not None
    assert told.stage == "kept_now"
    expected = "It was not in the logged answer; asked again on the data as they are now, it would be 2nd"
    assert why_not_sentence(told).startswith(expected)


def test_the_line_that_did_not_fit_says_how_many_tokens_it_lacks():
    lost = candidate("m", dropped="token_budget", place=3, score=0.6)
    found = decision(FIRST, lost)
    for needed, by in ((31, 11.0), (20, None)):
        told = lost_as_candidate(found, "m", LIMITS, Fate(tokens=needed))
        assert told is not None
        assert (told.stage, told.by_how_much) == ("budget", by)


def test_what_was_handed_over_or_is_no_candidate_was_not_lost_there():
    told = lost_as_candidate(decision(FIRST, SECOND), "b", LIMITS)
    assert told is not None
    assert (told.stage, why_not_sentence(told)) == ("kept", "It was handed over: it is 2nd in the answer.")
    assert lost_as_candidate(decision(FIRST), "m", LIMITS) is None


def _sources(**status: str) -> dict[str, Any]:
    return {name: {"status": one, "count": 0, "ms": 1.0, "error": "why"} for name, one in status.items()}


@pytest.mark.parametrize(
    ("then", "now", "fate", "stage", "by"),
    [
        ({"vector": "late"}, {}, Fate(ranks={"vector": 3}, pool_place=3), "source", None),
        ({"vector": "late"}, {}, Fate(ranks={"vector": 90, "lexical": 80}, pool_place=70), "rank_pool", 6.0),
        ({"rdf": "failed"}, {"rdf": "failed"}, Fate(), "source", None),
        ({"rdf": "failed"}, {}, Fate(), None, None),
        ({}, {}, Fate(ranks={"vector": 90}, pool_place=70), "rank_pool", 6.0),
        ({}, {}, Fate(deep_ranks={"vector": 131}, deepest=10_000), "rank_pool", 31.0),
        ({}, {}, Fate(deep_ranks={"vector": 40}, deepest=10_000), "rank_pool", None),
        ({}, {}, Fate(ranks={"vector": 1}, reason="filtered"), "filter", None),
        ({}, {}, Fate(ranks={"vector": 1}, reason="deleted"), "not_indexed", None),
        ({}, {}, Fate(deepest=10_000), None, None),
    ],
)
def test_asking_again_says_where_the_search_lost_it(
    then: dict[str, str], now: dict[str, str], fate: Fate, stage: str | None, by: float | None
) -> None:
    asked, again = decision(FIRST, sources=_sources(**then)), decision(FIRST, sources=_sources(**now))
    told = lost_in_search(asked, again, "m", LIMITS, fate, data=NOW)
    assert (told and told.stage, told and told.by_how_much) == (stage, by), told
    assert told is None or why_not_sentence(told).endswith(".")
    assert never_found(fate).stage == "never_found"


def test_a_time_that_narrowed_the_search_is_named():
    time = {"time": {"intervals": [{"from": NOON.isoformat(), "until": None}]}}
    again = decision(FIRST, understood=time)
    told = lost_in_search(decision(FIRST), again, "m", LIMITS, Fate(deep_ranks={"vector": 2}), data=NOW)
    assert told is not None
    assert told.stage == "time"


@pytest.mark.parametrize(
    ("fields", "stage", "by"),
    [
        ({"recorded_at": NOON + timedelta(seconds=90)}, "not_stored", 90.0),
        ({"gone_at": NOON - timedelta(minutes=5)}, "deleted", 300.0),
        ({"gone_at": NOON - timedelta(minutes=5), "superseded_by": "n"}, "deleted", 300.0),
        ({"unread": 17, "unread_at": NOON - timedelta(seconds=1)}, "not_indexed", 7.0),
        ({"unread": 17, "unread_at": NOON + timedelta(seconds=1)}, None, None),
        ({}, None, None),
    ],
)
def test_the_record_says_that_it_was_not_there(fields: dict[str, Any], stage: str | None, by: float | None) -> None:
    told = lost_by_record(decision(FIRST), memory(**fields))
    assert (told and told.stage, told and told.by_how_much) == (stage, by)


@pytest.mark.parametrize(
    ("scope", "options", "stage"),
    [
        ({"user_id": "u"}, {}, "scope"),
        ({"session_id": "s"}, {}, "scope"),
        ({"agent_id": "a"}, {}, "scope"),
        ({"run_id": "r"}, {}, "scope"),
        ({"kinds": ["plan"]}, {}, "filter"),
        ({"tags": ["x"]}, {}, "filter"),
        ({}, {"exclude": ["m"]}, "filter"),
        ({}, {"since": (NOON - timedelta(hours=1)).isoformat()}, "time"),
        ({}, {"until": (NOON - timedelta(days=2)).isoformat()}, "time"),
        ({"kinds": ["world"]}, {"since": (NOON - timedelta(days=2)).isoformat()}, None),
    ],
)
def test_what_was_not_asked_for_was_lost_by_that(
    scope: dict[str, Any], options: dict[str, Any], stage: str | None
) -> None:
    asked = {"options": options, "scope": {"name": "global", **scope}, "clock": NOON.isoformat()}
    told = lost_by_record(decision(FIRST, asked=asked), memory())
    assert (told and told.stage) == stage


def test_what_was_deleted_since_cannot_be_found_out():
    told = lost_since(decision(FIRST), memory(gone_at=NOON + timedelta(hours=3)))
    assert told is not None
    assert (told.stage, told.by_how_much, "after the question" in why_not_sentence(told)) == (
        "deleted",
        10_800.0,
        True,
    )
    assert lost_since(decision(FIRST), memory()) is None


def test_a_decision_is_asked_again_as_it_was_asked():
    asked = {
        "options": {"k": 3, "tags": ["x"], "as_of": "2026-03-01T12:00:00+01:00"},
        "turn": {"active_turn_ids": ["m7"]},
        "lane": "chat",
        "clock": "2026-03-01T11:00:00+00:00",
    }
    logged = decision(FIRST, asked=asked, session_id="s", intent="why", profile_requested="p")
    query = query_of(logged)
    assert (query.fragment, query.session_id, query.intent, query.lane) == ("where?", "s", "why", "chat")
    assert query.options is not None
    assert (query.options.k, query.options.tags) == (3, ("x",))
    assert query.exclude is not None
    assert query.exclude.active_turn_ids == ("m7",)
    assert clock_of(logged) == NOON.timestamp() - 3600
    assert why_not_again(logged) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"not_replayable": "forgotten"}, "forgotten"),
        ({"asked": None}, "did not keep what was asked"),
        ({"asked": {"options": {}}, "outcome": "expired"}, "nothing was searched for"),
    ],
)
def test_a_decision_that_cannot_be_asked_again_says_why(fields: dict[str, Any], why: str) -> None:
    told = why_not_again(decision(FIRST, **fields))
    assert told is not None
    assert why in told


def test_limits_are_those_of_the_class_and_the_options():
    by = profile(strategies={"temporal": {"max_total_items": 3}}, rank_pool=20, budget="low", min_score=0.2)
    found = limits_of_decision(decision(FIRST, understood={"class": "temporal", "shape": None}), by)
    assert (found.max_items, found.rank_pool, found.source_limit, found.min_score) == (3, 20, 100, 0.2)
    asked = {"options": {"k": 30, "min_score": 0.4, "max_tokens": 9, "budget": "high"}, "clock": NOON.isoformat()}
    found = limits_of_decision(decision(FIRST, asked=asked), by)
    assert (found.max_items, found.rank_pool, found.source_limit) == (30, 30, 1000)
    assert (found.min_score, found.budget_tokens) == (0.4, 9)


def test_the_shares_of_a_kept_candidate_add_up_to_its_score():
    one = candidate("m", score=0.65, parts={"fusion": 1.0, "late": 0.3}, weights={"fusion": 1.0, "late": 1.0})
    assert [(part.name, part.share) for part in score_shares(one)] == [("fusion", 0.5), ("late", 0.15)]
    assert score_shares(candidate("n")) == []


def test_the_trace_of_a_decision_says_why_its_first_items_came_first():
    parts = {"parts": {"fusion": 0.9}, "weights": {"fusion": 1.0}}
    first = candidate("a", kept=True, place=1, score=0.9, ranks={"vector": 1, "lexical": 2}, **parts)
    second = candidate("b", kept=True, place=2, score=0.6, parts={"fusion": 0.6}, weights={"fusion": 1.0})
    left = candidate("m", dropped="near_duplicate", dropped_for="a")
    found = explained_decision(decision(first, second, left, stage_ms={"total": 2.0}, strategy="temporal"))
    assert found["why"] == [
        {
            "code": "item",
            "place": 1,
            "id": "a",
            "score": 0.9,
            "found": {"vector": 1, "lexical": 2},
            "parts": [{"part": "fusion", "share": 0.9}],
            "ahead": {"by": 0.3, "part": "fusion"},
        },
        {
            "code": "item",
            "place": 2,
            "id": "b",
            "score": 0.6,
            "found": {"vector": 1},
            "parts": [{"part": "fusion", "share": 0.6}],
            "ahead": None,
        },
    ]
    first_words, _ = why_sentences(found["why"])
    assert first_words.startswith("a is first with 0.900: found first by meaning, 2nd by words; ")
    assert found["candidates"][2]["dropped"] == {"reason": "near_duplicate", "for": "a"}
    assert (found["stage_ms"], found["strategy"]) == ({"total": 2.0}, "temporal")
    assert explained_decision(decision())["why"] == []
