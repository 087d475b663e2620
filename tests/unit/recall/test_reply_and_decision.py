"""Reply and decision of a recall: what they hold, on request and always."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.contracts import MemoryBundleV1, RecallQueryV1, RecallReplyV1
from orion_recall.contracts.recall import CascadeV1
from orion_recall.errors import InvalidMessage, RefusedMessage, SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.asked import KeptText
from orion_recall.recall.report.decision import RequestFacts, candidates_of, candidates_to_keep, decision
from orion_recall.recall.report.reply import error_reply, reply, reply_json
from orion_recall.settings import Settings
from orion_recall.text.redaction import Redaction
from orion_recall.values import MemoryView, Question
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

OPTIONS: dict[str, Any] = {
    "tenant": "acme", "scope": "user", "user": "ana@example.org", "k": 3, "kinds": ["world"], "tags": ["blue-word"],
    "timezone": "Europe/Berlin", "include": {"metadata": True},
}  # fmt: skip
TURN = {"active_turn_ids": ["t-1"], "active_turn_text": "what of the winch?"}
FULL = KeptText()


async def decided(
    tokens: TokenCounter, kept_text: KeptText = FULL, text: str = "what about the crane?", **fields: Any
) -> Any:
    made = query(text, **fields)
    by = sources(tokens, [FakeSource("vector", (hit("a", 0.9),))], view("a", "the crane"))
    by.tombstones.positions = lambda: {"index": 12, "graph": 11}
    recalled = await recall(made, profile(), by, tenant="acme", now=NOW, timeout_s=1.5)
    facts = RequestFacts(decision_id="d", corr_id="c", query=made, build={"version": "1"})
    return decision(facts, outcome="ok", latency_ms=1.0, recalled=recalled, kept_text=kept_text)


async def test_a_decision_keeps_what_was_asked_of_which_data_and_by_which_build(tokens: TokenCounter):
    told = await decided(tokens, options=OPTIONS, exclude=TURN, lane="chat")
    options = {name: value for name, value in OPTIONS.items() if name != "tenant"}
    assert told.asked == {
        "options": options,
        "turn": TURN,
        "lane": "chat",
        "scope": {"name": "user", "user_id": "ana@example.org", "kinds": ["world"], "tags": ["blue-word"]},
        "clock": datetime.fromtimestamp(NOW, UTC).isoformat(),
        "zone": "Europe/Berlin",
        "limits": {"search_ms": 1500},
    }
    assert (told.read_at, told.build, told.not_replayable) == ({"index": 12, "graph": 11}, {"version": "1"}, None)


@pytest.mark.parametrize("mode", ["hash", "none"])
async def test_where_text_is_not_kept_no_word_is_and_it_says_that_it_cannot_be_asked_again(
    tokens: TokenCounter, mode: Any
):
    told = await decided(tokens, KeptText(mode=mode), options=OPTIONS, exclude=TURN, lane="chat")
    assert told.asked["options"]["k"] == 3
    assert told.asked["turn"] == {"active_turn_ids": ["t-1"]}
    whole = told.model_dump_json()
    assert [word for word in ("blue-word", "crane", "winch", "chat") if word in whole] == []
    assert told.not_replayable == f"query text is not kept (ORION_QUERY_TEXT={mode})"


async def test_redacted_words_are_not_kept_and_whose_memories_they_were_is(tokens: TokenCounter):
    redacting = KeptText(redaction=Redaction.at("log", ("log:email",)))
    options = {"scope": "user", "user": "ana@example.org"}
    told = await decided(tokens, redacting, "write to bo@example.org", options=options)
    assert "bo@example.org" not in told.model_dump_json()
    assert told.asked["options"]["user"] == told.user_id == "ana@example.org"
    assert told.not_replayable == "words of the query are redacted (ORION_REDACT)"
    assert (await decided(tokens, redacting, options={"k": 3})).not_replayable is None


TEXT = "We spoke of rain. The crane needs a gearbox."
LONG = view("long", TEXT, entities=("Fjord Labs",), passages=(0, 17, 18, len(TEXT)), user_id="u-1")
SHORT = view("short", "Bo paints the crane for Fjord Labs.", entities=("Bo", "Fjord Labs"), user_id="u-1")


async def second_passage(question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
    return dict.fromkeys(keys, 1)


async def bundle(tokens: TokenCounter, *memories: MemoryView, **options: Any) -> MemoryBundleV1:
    arm = FakeSource("vector", [hit(one.id, 0.9 - place / 10) for place, one in enumerate(memories)])
    found = replace(sources(tokens, [arm], *memories), passages=second_passage)
    asked = query(options=options)
    recalled = await recall(asked, profile(), found, now=NOW)
    return reply(asked, recalled, latency_ms=1.0, profile="test.v1", decision_id="d-1").bundle


async def test_a_chunk_says_where_in_its_memory_it_is(tokens: TokenCounter) -> None:
    told = await bundle(tokens, LONG, SHORT, include={"chunks": True})
    assert told.chunks is not None
    assert {name: (one.memory_id, one.index, one.text) for name, one in told.chunks.items()} == {
        "long#1": ("long", 1, "The crane needs a gearbox."),
        "short#0": ("short", 0, SHORT.text),
    }
    one = told.chunks["long#1"]
    assert TEXT[one.start : one.end] == one.text
    assert told.entities is None


CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
COPY = CRANE._replace(id="m2")
ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m4", "The shed is painted.", session_id="s2")
ALL = (CRANE, COPY, ORDER, SHED)
HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def recalled_by(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> Recalled:
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),))]
    return await recall(query(**fields), by or profile(), sources(tokens, arms, *ALL), now=NOW)


def keeping(share: float, candidates: int = 50) -> Profile:
    return profile(decisions={"share": share, "candidates": candidates})


def test_the_share_of_the_queries_keeps_its_candidates_and_the_same_ones_again():
    ids = [f"c-{number}" for number in range(4_000)]

    def drawn(share: float) -> set[str]:
        return {name for name in ids if candidates_to_keep(keeping(share), name, is_traced=False)}

    assert 150 < len(drawn(0.05)) < 250
    assert drawn(0.05) == drawn(0.05)
    assert drawn(0.05) < drawn(0.2)
    assert (drawn(0.0), len(drawn(1.0))) == (set(), len(ids))


async def test_a_memory_that_the_query_may_not_see_is_counted_and_not_named(tokens: TokenCounter):
    recalled = await recalled_by(tokens, options={"kinds": ["plan"]})
    assert [one.id for one in candidates_of(recalled, 50)] == ["m3"]
    assert recalled.selection.dropped["filtered"] == 3


def facts_of(**changes: Any) -> RequestFacts:
    fields: dict[str, Any] = {"decision_id": "d-1", "corr_id": "c-1", "profile": "test.v1"}
    return RequestFacts(**(fields | changes))


async def decided_of_decision(tokens: TokenCounter, **fields: Any) -> dict[str, Any]:
    """The decision on a query that finds a, b and c, and loses one source."""
    arms = [
        FakeSource("vector", (hit("a", 0.9), hit("b", 0.8), hit("c", 0.7))),
        FakeSource("lexical", (hit("b", 5.0),)),
        FakeSource("rdf", errors=[SourceError("broken")]),
    ]
    memories = (view("a", "the crane"), view("b", "the gearbox"), view("c", "the shed"))
    made = query(**fields)
    recalled = await recall(made, profile(max_total_items=2), sources(tokens, arms, *memories), now=NOW)
    whole = decision(
        facts_of(query=made, tenant="acme"), outcome=recalled.outcome, latency_ms=3.5, recalled=recalled
    )
    return whole.model_dump()


async def test_a_decision_says_what_was_found_kept_and_dropped_and_by_whom(tokens: TokenCounter):
    made = await decided_of_decision(tokens, session_id="s", node_id="n", verb="reflect", intent="plan")
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
    for one in made["selected"]:
        known = {name: made["weights"].get(name, 0.0) for name in one["parts"]}
        mean = sum(one["parts"][name] * weight for name, weight in known.items()) / sum(known.values())
        assert mean == pytest.approx(one["score"], abs=1e-5)
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
    told = decision(facts_of(query=made), outcome=recalled.outcome, latency_ms=1.0, recalled=recalled)
    assert told.cascade is not None
    assert told.no_answer is not None
    assert (told.outcome, told.cascade.primary_layer, told.no_answer.near_misses) == ("empty", "semantic", 1)
    assert told.confidence == told.cascade.final_confidence == 0.72


def test_what_an_unreadable_query_said_is_kept_as_far_as_it_was_text():
    raw = {"fragment": "crane", "verb": 7, "session_id": "s", "node_id": None}
    made = decision(facts_of(raw=raw), outcome="invalid", latency_ms=0.1, error="payload.verb: …")
    assert (made.query, made.query_chars, made.verb, made.session_id, made.node_id) == ("crane", 5, None, "s", None)
    assert decision(facts_of(), outcome="invalid", latency_ms=0.1).query == ""


async def test_a_decision_says_what_was_understood_and_without_words_where_text_is_not_kept(tokens: TokenCounter):
    made = query("when did the crane fall last week?")
    recalled = await recall(made, profile(), sources(tokens, [FakeSource("vector")]), now=NOW)
    told = [
        decision(
            facts_of(query=made), outcome="empty", latency_ms=1.0, recalled=recalled, kept_text=KeptText(mode=mode)
        )
        for mode in ("full", "hash", "none")
    ]
    times: list[Any] = [one.model_dump()["understood"]["time"] for one in told]
    assert [time["asks_when"] for time in times] == [True] * 3
    assert [time["intervals"][0].get("words") for time in times] == ["last week", None, None]
    assert "last week" not in told[1].model_dump_json() + told[2].model_dump_json()


def kept(mode: str, key: str | None = None) -> KeptText:
    return KeptText.of(Settings.read(query_text=mode, query_hash_key=key))


def test_errors_quote_messages_only_where_their_text_is_kept() -> None:
    error = InvalidMessage("fragment: no (got 'x')", without_values="fragment: no")
    assert (kept("full").error(error), kept("hash").error(error)) == ("fragment: no (got 'x')", "fragment: no")
    assert kept("none").error(RefusedMessage("not here")) == "not here"


def test_what_is_kept_is_redacted_where_the_settings_say_so() -> None:
    settings = Settings.read(redact=("log:email",))
    kept = KeptText.of(settings)
    assert kept.query("Who is ana@example.org?") == "Who is ‹e-mail address›?"
    assert kept.intent("ana@example.org") == "‹e-mail address›"
    assert kept.intent(None) is None
    assert kept.error(InvalidMessage("payload.x: 'ana@example.org'")) == "payload.x: '‹e-mail address›'"
    assert KeptText.of(Settings.read(redact=("render:all",))).query("a@example.org") == "a@example.org"


FOUNDING_ITEM = ["id", "source", "source_ref", "uri", "score", "ts", "title", "snippet", "tags"]
CRANE_OF_REPLY = view(
    "m1", "The crane needs a gearbox.", ts=NOW, title="Crane", kind="plan", speaker="Bo", session_id="s",
    tags=("harbour",), entities=("Fjord Labs",), uri="x:1", source_ref="chat",
)  # fmt: skip
SHED_OF_REPLY = view("m2", "The shed is painted.")


async def answered(
    tokens: TokenCounter, *, failing: bool = False, by: Profile | None = None, **fields: Any
) -> tuple[dict[str, Any], Recalled]:
    arms = [
        FakeSource("vector", (hit("m1", 0.9), hit("m2", 0.5)), errors=[SourceError("away")] if failing else ()),
        FakeSource("lexical", (hit("m1", 7.0),), errors=[SourceError("away, too")] if failing else ()),
    ]
    asked: RecallQueryV1 = query(**fields)
    recalled = await recall(asked, by or profile(), sources(tokens, arms, CRANE_OF_REPLY, SHED_OF_REPLY), now=NOW)
    made = reply(asked, recalled, latency_ms=12.5, profile="test.v1", decision_id="d-1")
    return json.loads(reply_json(made)), recalled


async def test_without_options_a_reply_has_the_founding_documents_fields_only(tokens: TokenCounter):
    written, _ = await answered(tokens, session_id="s", verb="reflect", intent="plan")
    assert list(written) == ["bundle"]
    assert list(written["bundle"]) == ["rendered", "items", "stats"]
    assert written["bundle"]["stats"] == {
        "backend_counts": {"vector": 2, "lexical": 1}, "latency_ms": 13, "profile": "test.v1",
    }  # fmt: skip
    assert isinstance(written["bundle"]["stats"]["latency_ms"], int)
    assert [list(item) for item in written["bundle"]["items"]] == [FOUNDING_ITEM, FOUNDING_ITEM]


async def test_options_bring_the_further_fields(tokens: TokenCounter):
    written, recalled = await answered(tokens, options={})
    stats = written["bundle"]["stats"]
    assert (stats["outcome"], stats["decision_id"], stats["dropped"]) == ("ok", "d-1", {})
    assert stats["tokens"] == recalled.selection.tokens
    assert {name: one["status"] for name, one in stats["sources"].items()} == {
        "vector": "ok", "lexical": "ok", "rdf": "off", "sql_timeline": "off",
    }  # fmt: skip
    item = written["bundle"]["items"][0]
    assert list(item) == [*FOUNDING_ITEM, "kind", "speaker", "session_id", "score_parts", "ranks", "confidence"]
    assert (item["kind"], item["speaker"], item["session_id"]) == ("plan", "Bo", "s")
    assert item["ranks"] == {"vector": 1, "lexical": 1}
    assert set(item["score_parts"]) >= {"fusion", "similarity", "recency"}
    assert "trace" not in stats
    confidence = item["confidence"]
    assert list(confidence) == [
        "overall", "level", "semantic_relevance", "source_quality", "recency", "consistency", "completeness",
    ]  # fmt: skip
    assert (confidence["semantic_relevance"], confidence["source_quality"]) == (0.9, 0.75)
    assert stats["confidence"] == confidence["overall"]
    assert "no_answer" not in stats


@pytest.mark.parametrize("part", ["trace", "entities", "chunks"])
async def test_each_further_part_comes_on_request_only(tokens: TokenCounter, part: str):
    written, _ = await answered(tokens, options={"include": {part: True}})
    item, stats = written["bundle"]["items"][0], written["bundle"]["stats"]
    assert ("trace" in stats, "entities" in item, "chunk" in item) == (
        part == "trace", part == "entities", part == "chunks",
    )  # fmt: skip
    assert item.get("entities", ["Fjord Labs"]) == ["Fjord Labs"]
    assert item.get("chunk", "The crane needs a gearbox.") == "The crane needs a gearbox."
    assert stats.get("trace", {"ranked": 2})["ranked"] == 2
    told = {"time", "class", "class_words", "shape", "people", "entities"}
    assert stats.get("trace", {"understood": dict.fromkeys(told)})["understood"].keys() == told


async def test_a_cascade_names_the_layer_of_every_item_and_its_way_in_the_trace(tokens: TokenCounter):
    options = {"cascade": True, "confidence_threshold": 1.0, "include": {"trace": True}}
    written, _ = await answered(tokens, options=options, by=profile(cascade={"first": "planning", "max_depth": 0}))
    (item,), trace = written["bundle"]["items"], written["bundle"]["stats"]["trace"]
    assert (item["id"], item["layer"]) == ("m1", "planning")
    assert (trace["cascade"]["primary_layer"], trace["cascade"]["ended"]) == ("planning", "depth")
    CascadeV1.model_validate(trace["cascade"])


async def test_a_withheld_answer_says_why_where_options_ask(tokens: TokenCounter):
    by = profile(no_answer={"min_confidence": 0.99})
    written, _ = await answered(tokens, options={}, by=by)
    assert written["bundle"]["items"] == []
    stats = written["bundle"]["stats"]
    assert (stats["outcome"], stats["no_answer"]["near_misses"], stats["dropped"]) == ("empty", 2, {"no_answer": 2})
    assert (stats["no_answer"]["reason"], stats["no_answer"]["minimum"]) == ("below_min_confidence", 0.99)
    written, _ = await answered(tokens, by=by)
    assert list(written["bundle"]["stats"]) == ["backend_counts", "latency_ms", "profile"]


async def test_when_every_source_fails_the_reply_says_why(tokens: TokenCounter):
    written, _ = await answered(tokens, failing=True, options={})
    assert written["error"] == {
        "type": "failed",
        "message": "no source answered (vector: away; lexical: away, too)",
    }
    assert written["bundle"]["items"] == []
    assert written["bundle"]["stats"]["latency_ms"] == 12.5


def test_an_error_is_an_empty_bundle_with_the_reason():
    made = error_reply("expired", "too late", latency_ms=0.4, profile="test.v1", extended=True)
    written = json.loads(made)
    assert written == {
        "bundle": {
            "rendered": "",
            "items": [],
            "stats": {"backend_counts": {}, "latency_ms": 0.4, "profile": "test.v1", "outcome": "expired"},
        },
        "error": {"type": "expired", "message": "too late"},
    }
    RecallReplyV1.model_validate(written)
