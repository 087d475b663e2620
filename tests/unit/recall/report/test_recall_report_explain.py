from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.contracts.confidence import NoAnswerReason, Trigger
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.bundle.selection import DropReason
from orion_recall.recall.cascade.run import Ended
from orion_recall.recall.pipeline import recall
from orion_recall.recall.ranking.score import combine
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.explain import apportioned, explained, explained_decision
from orion_recall.recall.report.sentences import DROPPED, ended_words, no_answer_words, trigger_words, why_sentences
from orion_recall.scoring.candidates import ScoredCandidate
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, profile, query, scored, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
COPY = CRANE._replace(id="m2")
ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m4", "The shed is painted.", session_id="s2")
TURN = view("m5", "what about the crane?", ts=NOW, session_id="s1")
ALL = (CRANE, COPY, ORDER, SHED, TURN)
HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def told(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> dict[str, Any]:
    """The trace, as its JSON is read."""
    arms = [
        FakeSource("vector", HITS),
        FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),)),
    ]
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


async def test_every_candidate_has_its_sources_with_rank_and_score(tokens: TokenCounter):
    trace = await told(tokens)
    assert of(trace, "m1")["sources"] == {"vector": {"rank": 1, "score": 0.9}}
    order = of(trace, "m3")
    assert order["sources"] == {"vector": {"rank": 3, "score": 0.7}, "rdf": {"rank": 1, "score": 2.0}}
    assert order["statements"] == ["Ana ordered gearbox"]
    assert (order["kind"], order["speaker"], order["ts"]) == ("plan", "Ana", NOW - 1800)
    assert order["text"] == "I ordered it at Fjord Labs."


async def test_what_was_dropped_says_why_and_in_whose_favour(tokens: TokenCounter):
    by = profile(max_total_items=1)
    trace = await told(tokens, by, options={"exclude": ["m4"]})
    reasons = {one["id"]: one["dropped"] for one in trace["candidates"]}
    assert reasons == {
        "m3": None,
        "m1": {"reason": "max_total_items", "for": None},
        "m2": {"reason": "near_duplicate", "for": "m1"},
        "m4": {"reason": "excluded", "for": None},
        "m5": {"reason": "own_turn", "for": None},
    }
    assert [(one["id"], one.get("place")) for one in trace["candidates"]] == [
        ("m3", 1), ("m1", 2), ("m2", None), ("m4", None), ("m5", None),
    ]  # fmt: skip
    assert of(trace, "m2")["score"] is not None
    assert of(trace, "m4")["score"] is None


async def test_of_what_the_query_may_not_see_nothing_is_told(tokens: TokenCounter):
    trace = await told(tokens, options={"kinds": ["plan"]})
    assert [one["id"] for one in trace["candidates"]] == ["m3"]
    assert "gearbox" not in json.dumps([one["text"] for one in trace["candidates"]])


async def test_too_low_a_score_is_told_with_the_score(tokens: TokenCounter):
    trace = await told(tokens, options={"min_score": 0.8})
    low = [one for one in trace["candidates"] if one["dropped"] and one["dropped"]["reason"] == "below_min_score"]
    assert low
    assert all(one["score"] < 0.8 for one in low)


def item(parts: dict[str, float], weights: dict[str, float]) -> ScoredCandidate:
    plain = scored("m")
    return ScoredCandidate(
        candidate=plain.candidate, memory=plain.memory, score=combine(parts, weights), parts=parts, weights=weights
    )


PARTS = ("fusion", "similarity", "neighbour", "recency", "speaker", "time")


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
    assert kept["why"] == at_once["why"]
    of_ranks = ("id", "place", "kept", "score", "parts", "dropped", "layer", "fused")
    assert [[one[name] for name in of_ranks] for one in kept["candidates"]] == [
        [one[name] for name in of_ranks] for one in at_once["candidates"]
    ]
    for one in at_once["candidates"]:
        assert sum(part["share"] for part in one["parts"]) == pytest.approx(one["score"] or 0.0, abs=1e-9)


async def test_every_code_of_a_trace_has_its_sentence(tokens: TokenCounter):
    trace = await told(tokens, options={"min_score": 0.1})
    assert {entry["code"] for entry in trace["why"]} == {"item"}
    assert apportioned([1 / 3, 1 / 3, 1 / 3], 1.0, 2) == [0.34, 0.33, 0.33]
    assert all(sentence.endswith(".") for sentence in why_sentences(trace["why"]))
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
