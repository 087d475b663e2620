from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.contracts import CascadeV1, RecallQueryV1, RecallReplyV1
from orion_recall.errors import SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.reply import backend_counts, error_reply, reply, reply_json, why_failed
from orion_recall.recall.types import Recalled
from orion_recall.values import Question, SourceReport
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

FOUNDING_ITEM = ["id", "source", "source_ref", "uri", "score", "ts", "title", "snippet", "tags"]
CRANE = view(
    "m1", "The crane needs a gearbox.", ts=NOW, title="Crane", kind="plan", speaker="Bo", session_id="s",
    tags=("harbour",), entities=("Fjord Labs",), uri="x:1", source_ref="chat",
)  # fmt: skip
SHED = view("m2", "The shed is painted.")


async def answered(
    tokens: TokenCounter, *, failing: bool = False, by: Profile | None = None, **fields: Any
) -> tuple[dict[str, Any], Recalled]:
    arms = [
        FakeSource("vector", (hit("m1", 0.9), hit("m2", 0.5)), errors=[SourceError("away")] if failing else ()),
        FakeSource("lexical", (hit("m1", 7.0),), errors=[SourceError("away, too")] if failing else ()),
    ]
    asked: RecallQueryV1 = query(**fields)
    recalled = await recall(asked, by or profile(), sources(tokens, arms, CRANE, SHED), now=NOW)
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


async def test_an_item_says_where_it_comes_from(tokens: TokenCounter):
    written, recalled = await answered(tokens)
    crane, shed = written["bundle"]["items"]
    assert crane == {
        "id": "m1", "source": "lexical", "source_ref": "chat", "uri": "x:1", "score": recalled.ranked[0].score,
        "ts": NOW, "title": "Crane", "snippet": "Crane: Bo: The crane needs a gearbox.", "tags": ["harbour"],
    }  # fmt: skip
    assert (shed["source"], shed["source_ref"], shed["ts"], shed["tags"]) == ("vector", "index", None, [])


async def test_a_source_that_says_where_it_has_a_memory_from_is_believed_where_it_is_the_one_that_is_named(
    tokens: TokenCounter,
):
    first = FakeSource("sql_timeline", (hit("m2", 0.9, source_ref="mirror"), hit("m1", 0.5, source_ref="mirror")))
    arms = [FakeSource("lexical", (hit("m1", 7.0),)), first]
    asked = query()
    recalled = await recall(asked, profile(), sources(tokens, arms, CRANE, SHED), now=NOW)
    made = reply(asked, recalled, latency_ms=1.0, profile="test.v1", decision_id="d-1")
    told = {item.id: (item.source, item.source_ref) for item in made.bundle.items}
    assert told == {"m1": ("lexical", "chat"), "m2": ("sql_timeline", "mirror")}


async def test_the_rendered_text_is_one_bullet_for_every_item(tokens: TokenCounter):
    written, _ = await answered(tokens)
    lines = written["bundle"]["rendered"].split("\n")
    assert [line.partition("] ")[2] for line in lines] == [item["snippet"] for item in written["bundle"]["items"]]


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


async def test_the_chunk_of_a_long_memory_is_its_best_passage(tokens: TokenCounter):
    text = "We spoke of rain. The crane needs a gearbox."
    long = view("m1", text, passages=(0, 17, 18, len(text)))

    class SecondPassage:
        async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
            return dict.fromkeys(keys, 1)

    found = sources(tokens, [FakeSource("vector", (hit("m1", 0.9),))], long)
    asked = query(options={"include": {"chunks": True}})
    recalled = await recall(asked, profile(), replace(found, passages=SecondPassage()), now=NOW)
    (item,) = reply(asked, recalled, latency_ms=1.0, profile="test.v1", decision_id="d-1").bundle.items
    assert (item.chunk, item.snippet) == ("The crane needs a gearbox.", "… The crane needs a gearbox.")


async def test_nothing_found_is_an_empty_bundle_without_an_error(tokens: TokenCounter):
    written, _ = await answered(tokens, options={"exclude": ["m1", "m2"]})
    assert (written["bundle"]["rendered"], written["bundle"]["items"]) == ("", [])
    assert "error" not in written
    assert written["bundle"]["stats"]["dropped"] == {"excluded": 2}


async def test_nobody_who_does_not_ask_why_pays_for_it(tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("orion_recall.recall.report.reply.explained", refuse)
    await answered(tokens, options={"include": {"entities": True, "chunks": True}})
    await answered(tokens)
    with pytest.raises(AssertionError):
        await answered(tokens, options={"include": {"trace": True}})


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


async def test_without_options_the_reply_is_an_empty_bundle_when_every_source_fails(tokens: TokenCounter):
    written, recalled = await answered(tokens, failing=True)
    assert recalled.outcome == "failed"
    assert written == {
        "bundle": {
            "rendered": "",
            "items": [],
            "stats": {"backend_counts": {"vector": 0, "lexical": 0}, "latency_ms": 13, "profile": "test.v1"},
        }
    }


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


def test_an_error_is_only_an_empty_bundle_for_those_who_read_no_more_than_v1_fields():
    made = error_reply("expired", "too late", latency_ms=0.6, profile="test.v1", extended=False)
    stats: dict[str, Any] = {"backend_counts": {}, "latency_ms": 1, "profile": "test.v1"}
    assert json.loads(made) == {"bundle": {"rendered": "", "items": [], "stats": stats}}


def test_counts_are_of_the_sources_that_were_asked():
    reports = (
        SourceReport(source="vector", status="ok", hits=(hit("a", 1.0),)),
        SourceReport(source="rdf", status="late", error="no answer within 5 ms"),
        SourceReport(source="sql_timeline", status="off"),
    )
    assert backend_counts(reports) == {"vector": 1, "rdf": 0}
    assert why_failed(reports[1:]) == "no source answered (rdf: no answer within 5 ms)"
    assert why_failed(reports[2:]) == "no source answered (none of the profile's sources is configured)"
