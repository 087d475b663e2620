"""Whether the lines that are made anew are those that were sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.contracts import RecallDecisionV1
from orion_recall.recall.report.reply import explained_decision
from orion_recall.recall.report.sentences import item_sentences, why_sentences
from orion_recall.serving.explain import Again, doubts_of

UNCHANGED = {"a": "unchanged", "b": "unchanged", "c": "unchanged"}


def logged(*names: str, tokens: tuple[int | None, ...] = (12, 8), **changes: Any) -> RecallDecisionV1:
    """A decision that handed over the memories, each line with so many tokens."""
    selected = [
        {"id": name, "source": "vector", "score": 0.9 - place / 10, "parts": {"fusion": 0.9, "recency": 0.1},
         "ranks": {"vector": place + 1}, "tokens": of}
        for place, (name, of) in enumerate(zip(names, tokens, strict=False))
    ]  # fmt: skip
    given: dict[str, Any] = {
        "id": "d", "corr_id": "c", "profile": "p", "query": "q", "selected_ids": [*names], "backend_counts": {},
        "latency_ms": 1, "dropped": {}, "created_at": datetime(2026, 3, 1, tzinfo=UTC), "outcome": "ok",
        "selected": selected, "tokens": sum(of or 0 for of in tokens),
    }  # fmt: skip
    return RecallDecisionV1.model_validate(given | changes)


def doubts(then: RecallDecisionV1, now: RecallDecisionV1, states: dict[str, str] = UNCHANGED, **again: Any) -> str:
    return "; ".join(doubts_of(then, Again(decision=now, **again), states))


def test_the_same_memories_in_the_same_order_with_the_same_tokens_are_what_was_sent():
    assert doubts(logged("a", "b"), logged("a", "b")) == ""
    before = logged("a", "b", tokens=(None, None)).model_copy(update={"tokens": 20})
    assert doubts(before, logged("a", "b")) == "", "an earlier version kept the tokens of all lines together"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (logged("b", "a"), "in another order"),
        (logged("a"), "1 of 2 memories are not in it, 0 are new"),
        (logged("a", "c"), "1 of 2 memories are not in it, 1 are new"),
        (logged("a", "b", tokens=(11, 9)), "of another length than then: a, b"),
        (logged("a", "b", tokens=(12, 9)), "then they had 20 tokens, and now 21; of another length than then: b"),
    ],
)
def test_what_differs_is_told(now: RecallDecisionV1, told: str):
    assert told in doubts(logged("a", "b"), now)


@pytest.mark.parametrize("state", ["changed", "superseded", "deleted", "gone"])
def test_a_memory_that_is_another_one_now_is_named(state: str):
    told = doubts(logged("a", "b"), logged("a", "b"), {**UNCHANGED, "b": state})
    assert told == "changed since, or not in the record: b"
    assert "a, b" in doubts(logged("a", "b"), logged("a", "b"), {}), "nobody may read what became of them"


def test_another_profile_is_told_whatever_comes_of_it():
    assert "profile_hash" in doubts(logged("a", "b"), logged("a", "b"), has_other_profile=True)


def test_why_each_item_is_where_it_is_is_told_without_candidates_and_without_weights():
    trace = explained_decision(logged("a", "b", weights={"fusion": 0.7, "recency": 0.1}))
    told = item_sentences(trace)
    assert list(told) == ["a", "b"]
    assert told["a"].startswith("a is first with 0.900: found first by meaning; ")
    assert "most of its score is 0.788 by what the sources found" in told["a"]
    assert " It leads the next by 0.100" in told["a"]
    assert list(why_sentences(trace)) == list(told.values())
    without = item_sentences(explained_decision(logged("a", "b")))
    assert "a is first with 0.900" in without["a"]
    assert "None" not in "".join(without.values())
    assert item_sentences(explained_decision(logged())) == {}
