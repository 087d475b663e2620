"""Reply and decision of a recall: what they hold, on request and always."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.contracts import CandidateV1, CascadeV1, MemoryBundleV1, RecallQueryV1, RecallReplyV1
from orion_recall.errors import InvalidMessage, RefusedMessage, SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, candidates_of, candidates_to_keep, decision
from orion_recall.recall.report.query_text import QUERY_CHARS, KeptText
from orion_recall.recall.report.reply import backend_counts, error_reply, reply, reply_json, why_failed
from orion_recall.recall.types import Recalled
from orion_recall.settings import Settings
from orion_recall.text.redaction import Redaction
from orion_recall.values import MemoryView, Question, SourceReport
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


async def test_a_query_that_is_cut_cannot_be_asked_again(tokens: TokenCounter):
    told = await decided(tokens, text="crane " * 1000)
    assert told.not_replayable == "of the query the first 4,000 characters are kept"


TEXT = "We spoke of rain. The crane needs a gearbox."


LONG = view("long", TEXT, entities=("Fjord Labs",), passages=(0, 17, 18, len(TEXT)), user_id="u-1")


SHORT = view("short", "Bo paints the crane for Fjord Labs.", entities=("Bo", "Fjord Labs"), user_id="u-1")


FOREIGN = view("foreign", "Fjord Labs sold the crane.", entities=("Fjord Labs", "Eve"), user_id="u-2")


class SecondPassage:
    async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(keys, 1)


async def bundle(tokens: TokenCounter, *memories: MemoryView, **options: Any) -> MemoryBundleV1:
    arm = FakeSource("vector", [hit(one.id, 0.9 - place / 10) for place, one in enumerate(memories)])
    found = replace(sources(tokens, [arm], *memories), passages=SecondPassage())
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


async def test_an_entitys_state_is_what_the_items_tell_of_it(tokens: TokenCounter) -> None:
    told = await bundle(tokens, LONG, SHORT, include={"entities": True})
    assert told.entities is not None
    assert set(told.entities) == {"Fjord Labs", "Bo"}
    labs = told.entities["Fjord Labs"]
    assert (labs.name, labs.memory_count, sorted(labs.memory_ids)) == ("Fjord Labs", 2, ["long", "short"])
    assert sorted(labs.observations) == sorted(item.snippet for item in told.items)
    assert told.entities["Bo"].memory_ids == ["short"]
    assert told.chunks is None


async def test_what_is_out_of_scope_is_told_by_neither(tokens: TokenCounter) -> None:
    """A source that forgets its filter: the other user's memory is named nowhere."""
    include = {"chunks": True, "entities": True}
    told = await bundle(tokens, SHORT, FOREIGN, scope="user", user="u-1", include=include)
    assert told.entities is not None
    assert told.chunks is not None
    assert set(told.entities) == {"Fjord Labs", "Bo"}
    assert told.entities["Fjord Labs"].memory_ids == ["short"]
    assert set(told.chunks) == {"short#0"}


async def test_without_asking_there_is_neither(tokens: TokenCounter) -> None:
    told = await bundle(tokens, SHORT)
    assert not {"entities", "chunks"} & told.model_fields_set


CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")


COPY = CRANE._replace(id="m2")


ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")


SHED = view("m4", "The shed is painted.", session_id="s2")


ALL = (CRANE, COPY, ORDER, SHED)


HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def recalled_by(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> Recalled:
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),))]
    return await recall(query(**fields), by or profile(), sources(tokens, arms, *ALL), now=NOW)


def by_id(kept: list[CandidateV1]) -> dict[str, CandidateV1]:
    return {one.id: one for one in kept}


def keeping(share: float, candidates: int = 50) -> Profile:
    return profile(decisions={"share": share, "candidates": candidates})


def test_the_share_of_the_queries_keeps_its_candidates_and_the_same_ones_again():
    ids = [f"c-{number}" for number in range(20_000)]

    def drawn(share: float) -> set[str]:
        return {name for name in ids if candidates_to_keep(keeping(share), name, is_traced=False)}

    assert 900 < len(drawn(0.05)) < 1100
    assert drawn(0.05) == drawn(0.05)
    assert drawn(0.05) < drawn(0.2)
    assert (drawn(0.0), len(drawn(1.0))) == (set(), len(ids))


def test_a_query_that_asks_for_a_trace_keeps_them_unless_none_are_wanted():
    assert candidates_to_keep(profile(), "c-1", is_traced=False) == 0
    assert candidates_to_keep(profile(), "c-1", is_traced=True) == 50
    assert candidates_to_keep(keeping(1.0, candidates=0), "c-1", is_traced=True) == 0


async def test_of_each_candidate_ranks_parts_and_weights_are_kept_that_give_its_score(tokens: TokenCounter):
    recalled = await recalled_by(tokens)
    kept = candidates_of(recalled, 50)
    order = by_id(kept)["m3"]
    assert (order.ranks, order.source, order.kept) == ({"vector": 3, "rdf": 1}, "rdf", True)
    scores = {item.candidate.key: item for item in recalled.ranked}
    assert [one.place for one in kept if one.place] == list(range(1, len(scores) + 1))
    for one in kept:
        assert one.score is not None
        assert one.parts.keys() == one.weights.keys()
        mean = sum(value * one.weights[name] for name, value in one.parts.items()) / sum(one.weights.values())
        assert mean == pytest.approx(one.score, abs=1e-5)


async def test_items_with_several_sets_of_weights_have_none_in_common(tokens: TokenCounter):
    recalled = await recalled_by(tokens)
    assert decision(facts_of(), outcome="ok", latency_ms=1.0, recalled=recalled).weights
    recalled.selection.items[-1].scored.weights = {"fusion": 1.0}
    assert decision(facts_of(), outcome="ok", latency_ms=1.0, recalled=recalled).weights is None


async def test_what_was_left_out_says_why_and_for_which_other(tokens: TokenCounter):
    by = profile(max_total_items=1)
    kept = by_id(candidates_of(await recalled_by(tokens, by, options={"exclude": ["m4"]}), 50))
    assert {name: (one.kept, one.dropped, one.dropped_for) for name, one in kept.items()} == {
        "m3": (True, None, None),
        "m1": (False, "max_total_items", None),
        "m2": (False, "near_duplicate", "m1"),
        "m4": (False, "excluded", None),
    }
    assert (kept["m2"].place, kept["m4"].score) == (None, None)


async def test_a_memory_that_the_query_may_not_see_is_counted_and_not_named(tokens: TokenCounter):
    recalled = await recalled_by(tokens, options={"kinds": ["plan"]})
    assert [one.id for one in candidates_of(recalled, 50)] == ["m3"]
    assert recalled.selection.dropped["filtered"] == 3


async def test_no_text_of_a_memory_is_in_them(tokens: TokenCounter):
    told = json.dumps([one.model_dump() for one in candidates_of(await recalled_by(tokens), 50)])
    for words in ("gearbox", "Fjord", "painted", "Ana", "ordered"):
        assert words not in told


async def test_some_room_is_left_for_those_that_were_dropped_before_the_order(tokens: TokenCounter):
    memories = [view(f"m{number}", f"{number} boats and {number * 7} cranes") for number in range(60)]
    hits = [hit(f"m{number}", 1.0 - number / 200) for number in range(60)]
    made = sources(tokens, [FakeSource("vector", hits)], *memories)
    options = {"exclude": [f"m{number}" for number in range(40, 60)]}
    recalled = await recall(query(options=options), profile(rank_pool=100), made, now=NOW)
    kept = candidates_of(recalled, 30)
    assert len(kept) == 30
    assert [one.dropped for one in kept].count("excluded") == 10
    assert len(candidates_of(recalled, 500)) == 60


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


def test_a_query_that_was_not_searched_for_is_decided_all_the_same():
    made = decision(facts_of(query=query()), outcome="expired", latency_ms=0.1, error="too late")
    assert (made.outcome, made.error, made.query) == ("expired", "too late", "what about the crane?")
    assert (made.selected_ids, made.backend_counts, made.dropped, made.sources) == ([], {}, {}, {})
    assert (made.latency_ms, made.stage_ms) == (0, {"total": 0.1})


def test_what_an_unreadable_query_said_is_kept_as_far_as_it_was_text():
    raw = {"fragment": "crane", "verb": 7, "session_id": "s", "node_id": None}
    made = decision(facts_of(raw=raw), outcome="invalid", latency_ms=0.1, error="payload.verb: …")
    assert (made.query, made.query_chars, made.verb, made.session_id, made.node_id) == ("crane", 5, None, "s", None)
    assert decision(facts_of(), outcome="invalid", latency_ms=0.1).query == ""


def test_a_long_query_is_cut_and_its_length_kept():
    made = decision(facts_of(query=query("crane " * 2000)), outcome="refused", latency_ms=0.1)
    assert (len(made.query), made.query_chars) == (4000, 12000)


async def test_a_decision_says_what_was_understood_and_without_words_where_text_is_not_kept(tokens: TokenCounter):
    made = query("when did the crane fall last week?")
    recalled = await recall(made, profile(), sources(tokens, [FakeSource("vector")]), now=NOW)
    told = [
        decision(
            facts_of(query=made),
            outcome="empty",
            latency_ms=1.0,
            recalled=recalled,
            kept_text=KeptText(mode=mode),
        )
        for mode in ("full", "hash", "none")
    ]
    times: list[Any] = [one.model_dump()["understood"]["time"] for one in told]
    assert [time["asks_when"] for time in times] == [True] * 3
    assert [time["intervals"][0].get("words") for time in times] == ["last week", None, None]
    assert "last week" not in told[1].model_dump_json() + told[2].model_dump_json()


TEXT_OF_TEXT = "what did my doctor say?"


def kept(mode: str, key: str | None = None) -> KeptText:
    return KeptText.of(Settings.read(query_text=mode, query_hash_key=key))


def test_a_hash_is_that_of_the_whole_text_and_says_which_it_is() -> None:
    digest = hashlib.blake2b(TEXT_OF_TEXT.encode(), digest_size=16).hexdigest()
    assert kept("hash").query(TEXT_OF_TEXT) == f"blake2b:{digest}"
    long = "a" * (QUERY_CHARS + 1)
    assert kept("hash").query(long) != kept("hash").query(long + "a")
    assert kept("full").query(long) == long[:-1]


def test_with_a_key_the_hash_is_another_and_equal_texts_stay_equal() -> None:
    assert len({kept("hash", key).query(TEXT_OF_TEXT) for key in (None, "k", "k" * 200, "k" * 201)}) == 4
    assert kept("hash", "k").query(TEXT_OF_TEXT) == kept("hash", "k").query(TEXT_OF_TEXT)
    assert kept("hash", "").query(TEXT_OF_TEXT) == kept("hash", None).query(TEXT_OF_TEXT), "an empty secret is none"


def test_errors_quote_messages_only_where_their_text_is_kept() -> None:
    error = InvalidMessage("fragment: no (got 'x')", without_values="fragment: no")
    assert (kept("full").error(error), kept("hash").error(error)) == ("fragment: no (got 'x')", "fragment: no")
    assert kept("none").error(RefusedMessage("not here")) == "not here"


def test_a_key_does_not_show() -> None:
    settings = Settings.read(query_text="hash", query_hash_key="hunter2")
    assert "hunter2" not in f"{settings!r} {settings.model_dump_json()} {KeptText.of(settings)!r}"
    assert str(KeptText.of(settings).key) not in repr(KeptText.of(settings))


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


async def test_an_item_says_where_it_comes_from(tokens: TokenCounter):
    written, recalled = await answered(tokens)
    crane, shed = written["bundle"]["items"]
    assert crane == {
        "id": "m1", "source": "lexical", "source_ref": "chat", "uri": "x:1", "score": recalled.ranked[0].score,
        "ts": NOW, "title": "Crane", "snippet": "Crane: Bo: The crane needs a gearbox.", "tags": ["harbour"],
    }  # fmt: skip
    assert (shed["source"], shed["source_ref"], shed["ts"], shed["tags"]) == ("vector", "index", None, [])


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
