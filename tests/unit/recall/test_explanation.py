"""Explanations: the trace, the sentences made from it, and why a memory is not in an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.contracts import RecallDecisionV1
from orion_recall.contracts.recall import CandidateV1, NoAnswerReason, Trigger
from orion_recall.decisions.memories import MemoryFacts
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.bundle.select import DropReason
from orion_recall.recall.cascade import Ended
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.asked import Limits, clock_of, limits_of_decision, query_of, why_not_again
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import apportioned, explained, explained_decision
from orion_recall.recall.report.sentences import (
    DROPPED,
    ended_words,
    no_answer_words,
    trigger_words,
    why_not_sentence,
    why_sentences,
)
from orion_recall.recall.report.why_not import Fate, lost_as_candidate, lost_by_record, lost_in_search, never_found
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, profile, query, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
COPY = CRANE._replace(id="m2")
ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m4", "The shed is painted.", session_id="s2")
TURN = view("m5", "what about the crane?", ts=NOW, session_id="s1")
ALL = (CRANE, COPY, ORDER, SHED, TURN)
HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def told(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> dict[str, Any]:
    """The trace, as its JSON is read."""
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),))]
    made = sources(tokens, arms, *ALL, lexicon=Speakers("Ana", "Bo"))
    recalled = await recall(query(session_id="s1", **fields), by or profile(), made, now=NOW)
    return json.loads(json.dumps(explained(recalled)))


def of(trace: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [one for one in trace["candidates"] if one["id"] == name]
    return one


class _Judge:
    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [0.25 for _ in texts]


async def test_the_scores_of_rank_fusion_and_cross_encoder_are_named(tokens: TokenCounter):
    """`rrf_score` is not divided by the best; who was not judged has no `cross_encoder_score`."""
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0),))]
    by = profile(rerank={"enabled": True, "top_n": 1, "timeout_ms": 5000})
    recalled = await recall(query(), by, sources(tokens, arms, *ALL, reranker=_Judge()), now=NOW, timeout_s=5)
    trace = json.loads(json.dumps(explained(recalled)))
    assert of(trace, "m3")["rrf_score"] == pytest.approx(1 / 63 + 0.5 / 61, abs=1e-6)
    judged = [one["cross_encoder_score"] for one in trace["candidates"] if "cross_encoder_score" in one]
    assert judged == [0.25]


async def test_of_what_the_query_may_not_see_nothing_is_told(tokens: TokenCounter):
    trace = await told(tokens, options={"kinds": ["plan"]})
    assert [one["id"] for one in trace["candidates"]] == ["m3"]
    assert "gearbox" not in json.dumps([one["text"] for one in trace["candidates"]])


async def test_the_trace_at_once_and_that_of_the_kept_decision_are_the_same_but_for_what_is_of_memories(
    tokens: TokenCounter,
):
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0),))]
    asked_for = query(session_id="s1", options={"exclude": ["m4"]})
    recalled = await recall(asked_for, profile(max_total_items=2), sources(tokens, arms, *ALL), now=NOW)
    facts = RequestFacts(
        decision_id="d", corr_id="c", query=asked_for, tenant="default", profile="p", candidates=60
    )
    kept = explained_decision(decision(facts, outcome="ok", latency_ms=1.0, recalled=recalled))
    at_once = explained(recalled)
    of_ranks = ("id", "place", "kept", "score", "parts", "dropped", "layer", "fused")
    assert [[one[name] for name in of_ranks] for one in kept["candidates"]] == [
        [one[name] for name in of_ranks] for one in at_once["candidates"]
    ]
    for one in at_once["candidates"]:
        assert sum(part["share"] for part in one["parts"]) == pytest.approx(one["score"] or 0.0, abs=1e-9)


async def test_every_code_of_a_trace_has_its_sentence(tokens: TokenCounter):
    trace = await told(tokens, options={"min_score": 0.1})
    assert apportioned([1 / 3, 1 / 3, 1 / 3], 1.0, 2) == [0.34, 0.33, 0.33]
    assert all(sentence.endswith(".") for sentence in why_sentences(trace))
    assert set(DROPPED) == set(get_args(DropReason))
    for reason in get_args(NoAnswerReason):
        assert no_answer_words({"reason": reason, "value": 0.1, "minimum": 0.2})
    told_by = {"threshold": 0.5, "min_relevance": 0.2, "max_depth": 1}
    step = {"layer": "graph", "confidence": 0.4, "relevance": 0.1, "not_asked": "no_time"}
    for trigger in get_args(Trigger):
        assert "graph" in trigger_words({**told_by, "trigger": trigger, "path": [step]})
    for ended in get_args(Ended):
        assert ended_words({**told_by, "ended": ended, "path": [step]})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(2, 6))
def test_shares_are_rounded_so_that_they_add_up(values: list[float], digits: int):
    made = apportioned(values, sum(values), digits)
    assert sum(round(value * 10**digits) for value in made) == round(round(sum(values), digits) * 10**digits)
    assert all(abs(value - whole) < 2 / 10**digits for value, whole in zip(made, values, strict=True))


NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(min_score=0.5, budget_tokens=100, rank_pool=64, source_limit=100)
OF_NOW = "the data as they are now"


def candidate(name: str, **fields: Any) -> CandidateV1:
    return CandidateV1.model_validate(
        {"id": name, "source": "vector", "ranks": {"vector": 1}, "fused": 0.5} | fields
    )


def decided(*candidates: CandidateV1, **fields: Any) -> RecallDecisionV1:
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
        ({"dropped": "token_budget", "place": 3, "score": 0.6}, "budget", None, None, "render_budget_tokens"),
        ({"dropped": "below_min_score", "score": 0.4}, "score", 0.1, "score", "min_score"),
        ({"dropped": "no_answer", "score": 0.4}, "score", None, None, "withheld"),
        ({"dropped": "unsure", "place": 5, "score": 0.6}, "cap", 3.0, "places", "unsure_items"),
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
            "succeeded by b",
        ),
        ({"dropped": "near_duplicate", "dropped_for": None}, "near_duplicate", None, None, "another memory"),
        ({"dropped": "other_time"}, "time", None, None, "time"),
        ({"dropped": "not_said_by"}, "filter", None, None, "named"),
        ({"dropped": "instructs_reader"}, "filter", None, None, "reader_instructions"),
        ({"dropped": None, "place": 9}, "unknown", None, None, "no reason"),
    ],
)
def test_a_candidate_was_lost_where_its_reason_says(
    fields: dict[str, Any], stage: str, by: float | None, unit: str | None, word: str
) -> None:
    told = lost_as_candidate(decided(FIRST, SECOND, candidate("m", **fields)), "m", LIMITS)
    assert told is not None
    assert (told.by_how_much, told.unit) == (by, unit)
    assert (told.stage, word in why_not_sentence(told)) == (stage, True), told


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
    asked, again = decided(FIRST, sources=_sources(**then)), decided(FIRST, sources=_sources(**now))
    told = lost_in_search(asked, again, "m", LIMITS, fate, data=OF_NOW)
    assert (told and told.stage, told and told.by_how_much) == (stage, by), told
    assert told is None or why_not_sentence(told).endswith(".")
    assert never_found(fate).stage == "never_found"


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
    told = lost_by_record(decided(FIRST), memory(**fields))
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
    told = lost_by_record(decided(FIRST, asked=asked), memory())
    assert (told and told.stage) == stage


def test_a_decision_is_asked_again_as_it_was_asked():
    asked = {
        "options": {"k": 3, "tags": ["x"], "as_of": "2026-03-01T12:00:00+01:00"},
        "turn": {"active_turn_ids": ["m7"]},
        "lane": "chat",
        "clock": "2026-03-01T11:00:00+00:00",
    }
    logged = decided(FIRST, asked=asked, session_id="s", intent="why", profile_requested="p")
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
    told = why_not_again(decided(FIRST, **fields))
    assert told is not None
    assert why in told


def test_limits_are_those_of_the_class_and_the_options():
    by = profile(strategies={"temporal": {"max_total_items": 3}}, rank_pool=20, budget="low", min_score=0.2)
    found = limits_of_decision(decided(FIRST, understood={"class": "temporal", "shape": None}), by)
    assert (found.rank_pool, found.source_limit, found.min_score) == (20, 100, 0.2)
    asked = {"options": {"k": 30, "min_score": 0.4, "max_tokens": 9, "budget": "high"}, "clock": NOON.isoformat()}
    found = limits_of_decision(decided(FIRST, asked=asked), by)
    assert (found.rank_pool, found.source_limit) == (30, 1000)
    assert (found.min_score, found.budget_tokens) == (0.4, 9)


def test_the_trace_of_a_decision_says_why_its_first_items_came_first():
    parts = {"parts": {"fusion": 0.9}, "weights": {"fusion": 1.0}}
    first = candidate("a", kept=True, place=1, score=0.9, ranks={"vector": 1, "lexical": 2}, **parts)
    second = candidate("b", kept=True, place=2, score=0.6, parts={"fusion": 0.6}, weights={"fusion": 1.0})
    left = candidate("m", dropped="near_duplicate", dropped_for="a")
    found = explained_decision(decided(first, second, left, stage_ms={"total": 2.0}, strategy="temporal"))
    first_words, second_words = why_sentences(found)
    assert first_words.startswith("a is first with 0.900: found first by meaning, 2nd by words; ")
    assert first_words.endswith("It leads the next by 0.300, most of all by what the sources found.")
    assert second_words.startswith("b is 2nd with 0.600: ")
    assert found["candidates"][2]["dropped"] == {"reason": "near_duplicate", "for": "a"}
    assert (found["stage_ms"], found["strategy"]) == ({"total": 2.0}, "temporal")
    assert [*why_sentences(explained_decision(decided()))] == []
