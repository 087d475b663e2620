from __future__ import annotations

from typing import Any

import pytest

from orion_recall.errors import SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.query_text import KeptText
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view


def asked(**changes: Any) -> RequestFacts:
    fields: dict[str, Any] = {"decision_id": "d-1", "corr_id": "c-1", "profile": "test.v1"}
    return RequestFacts(**(fields | changes))


async def decided(tokens: TokenCounter, **fields: Any) -> dict[str, Any]:
    """The decision on a query that finds a, b and c, and loses one source."""
    arms = [
        FakeSource("vector", (hit("a", 0.9), hit("b", 0.8), hit("c", 0.7))),
        FakeSource("lexical", (hit("b", 5.0),)),
        FakeSource("rdf", errors=[SourceError("broken")]),
    ]
    memories = (view("a", "the crane"), view("b", "the gearbox"), view("c", "the shed"))
    made = query(**fields)
    recalled = await recall(made, profile(max_total_items=2), sources(tokens, arms, *memories), now=NOW)
    whole = decision(asked(query=made, tenant="acme"), outcome=recalled.outcome, latency_ms=3.5, recalled=recalled)
    return whole.model_dump()


async def test_a_decision_says_what_was_found_kept_and_dropped_and_by_whom(tokens: TokenCounter):
    made = await decided(tokens, session_id="s", node_id="n", verb="reflect", intent="plan")
    assert made["selected_ids"] == ["b", "a"]
    assert made["backend_counts"] == {"vector": 3, "lexical": 1, "rdf": 0}
    assert made["dropped"] == {"max_total_items": 1}
    assert made["outcome"] == "degraded"
    assert {name: (one["status"], one["count"], one["error"]) for name, one in made["sources"].items()} == {
        "vector": ("ok", 3, None),
        "lexical": ("ok", 1, None),
        "rdf": ("failed", 0, "broken"),
        "sql_timeline": ("off", 0, None),
    }
    assert [(one["id"], one["source"], one["ranks"]) for one in made["selected"]] == [
        ("b", "lexical", {"vector": 2, "lexical": 1}),
        ("a", "vector", {"vector": 1}),
    ]
    assert all(0 <= one["score"] <= 1 and one["parts"] for one in made["selected"])
    assert (made["query"], made["session_id"], made["node_id"]) == ("what about the crane?", "s", "n")
    assert (made["verb"], made["intent"], made["tenant"], made["scope"]) == ("reflect", "plan", "acme", "global")
    assert (made["latency_ms"], made["stage_ms"]["total"], made["profile"]) == (4, 3.5, "test.v1")
    assert made["tokens"] > 0
    assert made["confidence"] == made["selected"][0]["confidence"]["overall"]
    assert {one["confidence"]["level"] for one in made["selected"]} == {"medium"}
    assert (made["cascade"], made["no_answer"]) == (None, None)
    assert [one["layer"] for one in made["selected"]] == [None, None]
    assert "search" in made["stage_ms"]


async def test_a_decision_tells_the_way_of_a_cascade_and_why_nothing_was_handed_over(tokens: TokenCounter):
    made = query(options={"cascade": True})
    fact = view("a", "the crane", kind="world")
    by = profile(no_answer={"min_confidence": 0.99})
    recalled = await recall(made, by, sources(tokens, [FakeSource("vector", (hit("a", 0.9),))], fact), now=NOW)
    told = decision(asked(query=made), outcome=recalled.outcome, latency_ms=1.0, recalled=recalled)
    assert told.cascade is not None
    assert told.no_answer is not None
    assert (told.outcome, told.cascade.primary_layer, told.no_answer.near_misses) == ("empty", "semantic", 1)
    assert told.confidence == told.cascade.final_confidence == 0.72


@pytest.mark.parametrize(
    ("fields", "scope", "user"),
    [
        ({}, "global", None),
        ({"session_id": "s", "options": {"scope": "session"}}, "session", None),
        ({"options": {"scope": "user", "user": "u"}}, "user", "u"),
    ],
)
async def test_a_decision_says_whose_memories_were_searched(
    tokens: TokenCounter, fields: dict[str, Any], scope: str, user: str | None
):
    made = await decided(tokens, **fields)
    assert (made["scope"], made["user_id"]) == (scope, user)


def test_a_query_that_was_not_searched_for_is_decided_all_the_same():
    made = decision(asked(query=query()), outcome="expired", latency_ms=0.1, error="too late")
    assert (made.outcome, made.error, made.query) == ("expired", "too late", "what about the crane?")
    assert (made.selected_ids, made.backend_counts, made.dropped, made.sources) == ([], {}, {}, {})
    assert (made.latency_ms, made.stage_ms) == (0, {"total": 0.1})


def test_what_an_unreadable_query_said_is_kept_as_far_as_it_was_text():
    raw = {"fragment": "crane", "verb": 7, "session_id": "s", "node_id": None}
    made = decision(asked(raw=raw), outcome="invalid", latency_ms=0.1, error="payload.verb: …")
    assert (made.query, made.query_chars, made.verb, made.session_id, made.node_id) == ("crane", 5, None, "s", None)
    assert decision(asked(), outcome="invalid", latency_ms=0.1).query == ""


def test_a_long_query_is_cut_and_its_length_kept():
    made = decision(asked(query=query("crane " * 2000)), outcome="refused", latency_ms=0.1)
    assert (len(made.query), made.query_chars) == (4000, 12000)


def test_where_the_query_came_from_is_recorded():
    given = {
        "entry_id": "5-0", "deliveries": 2, "unknown_fields": 3, "reply_to": "r", "trace_id": "t", "worker": "w",
        "profile_requested": "nope", "profile_hash": "h", "profile_fallback": True,
    }  # fmt: skip
    made = decision(asked(query=query(), **given), outcome="ok", latency_ms=0.1)
    assert {name: getattr(made, name) for name in given} == given
    assert (made.id, made.corr_id) == ("d-1", "c-1")


async def test_a_decision_says_what_was_understood_and_without_words_where_text_is_not_kept(tokens: TokenCounter):
    made = query("when did the crane fall last week?")
    recalled = await recall(made, profile(), sources(tokens, [FakeSource("vector")]), now=NOW)
    told = [
        decision(
            asked(query=made), outcome="empty", latency_ms=1.0, recalled=recalled, kept_text=KeptText(mode=mode)
        )
        for mode in ("full", "hash", "none")
    ]
    times: list[Any] = [one.model_dump()["understood"]["time"] for one in told]
    assert [time["asks_when"] for time in times] == [True] * 3
    assert [time["intervals"][0].get("words") for time in times] == ["last week", None, None]
    assert "last week" not in told[1].model_dump_json() + told[2].model_dump_json()
