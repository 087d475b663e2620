from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.query_text import KeptText
from orion_recall.text.redaction import Redaction
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


async def test_the_clock_is_the_querys_own_now_and_the_zone_is_its(tokens: TokenCounter):
    told = (await decided(tokens, options={"as_of": "2026-02-01T10:00:00+02:00"})).asked
    assert (told["clock"], told["zone"]) == ("2026-02-01T08:00:00+00:00", "+02:00")
    assert told["options"] == {"as_of": "2026-02-01T10:00:00+02:00"}
    plain = (await decided(tokens)).asked
    assert (plain["options"], plain["scope"], plain["zone"]) == ({}, {"name": "global"}, "UTC")


async def test_of_a_query_without_a_word_it_is_kept_too(tokens: TokenCounter):
    told = await decided(tokens, text="  ", options={"k": 2})
    assert (told.asked["options"], told.asked["limits"]) == ({"k": 2}, {"search_ms": 1500})


@pytest.mark.parametrize("mode", ["hash", "none"])
async def test_where_text_is_not_kept_no_word_is_and_it_says_that_it_cannot_be_asked_again(
    tokens: TokenCounter, mode: Any
):
    told = await decided(tokens, KeptText(mode=mode), options=OPTIONS, exclude=TURN, lane="chat")
    assert told.asked["options"]["k"] == 3
    assert told.asked["turn"] == {"active_turn_ids": ["t-1"]}
    whole = told.model_dump_json()
    assert [word for word in ("blue-word", "winch", "chat") if word in whole] == []
    assert told.not_replayable == f"query text is not kept (ORION_QUERY_TEXT={mode})"


async def test_redacted_words_are_not_kept_and_whose_memories_they_were_is(tokens: TokenCounter):
    redacting = KeptText(redaction=Redaction.at("log", ("log:email",)))
    options = {"scope": "user", "user": "ana@example.org", "tags": ["bo@example.org"]}
    told = await decided(tokens, redacting, options=options)
    assert "bo@example.org" not in told.model_dump_json()
    assert told.asked["options"]["user"] == told.user_id == "ana@example.org"
    assert told.not_replayable == "words of the query are redacted (ORION_REDACT)"
    assert (await decided(tokens, redacting, options={"k": 3})).not_replayable is None
    asked_of = await decided(tokens, redacting, text="what did bo@example.org say?")
    assert asked_of.not_replayable == "words of the query are redacted (ORION_REDACT)"


async def test_a_query_that_is_cut_cannot_be_asked_again(tokens: TokenCounter):
    told = await decided(tokens, text="crane " * 1000)
    assert told.not_replayable == "of the query the first 4,000 characters are kept"


def test_a_query_that_was_not_recalled_keeps_its_options_and_one_that_is_unreadable_nothing():
    facts = RequestFacts(decision_id="d", corr_id="c", query=query(options={"k": 2}))
    late = decision(facts, outcome="expired", latency_ms=0.1)
    assert (late.asked, late.read_at, late.not_replayable) == ({"options": {"k": 2}}, None, None)
    unread = decision(RequestFacts(decision_id="d", corr_id="c"), outcome="invalid", latency_ms=0.1)
    assert (unread.asked, unread.not_replayable) == (None, "the query could not be read")
