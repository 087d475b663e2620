"""What is looked for in messages, names as regular expressions, and decisions without words."""

from __future__ import annotations

import json
import re

import pytest

from orion_recall.decisions.removal import blanked
from orion_recall.memory.forget.record import Target
from orion_recall.memory.forget.run import Matcher


def entry(payload: object, **fields: str) -> dict[bytes, bytes]:
    return {b"envelope": json.dumps({"payload": payload}).encode()} | {
        name.encode(): value.encode() for name, value in fields.items()
    }


def matcher(target: Target, *ids: str) -> Matcher:
    return Matcher(target, ids, "default")


def test_an_entry_matches_by_an_id_in_it_however_it_is_escaped():
    looks = matcher(Target.of("memory", "default", "m-é"), "m-é")
    assert looks.matches(entry({"items": [{"id": "m-é", "snippet": "x"}]}))
    assert not looks.matches(entry({"items": [{"id": "m-éa"}], "text": "about m-é"}))
    cut = {b"field:envelope": b'{"payload": {"id": "m-\\u00e9", "te'}
    assert looks.matches(cut), "a dead letter may hold no whole JSON"


def test_an_entry_that_names_only_other_tenants_does_not_match():
    looks = matcher(Target.of("memory", "north", "m"), "m")
    assert looks.matches(entry({"tenant": "north", "selected_ids": ["m"]}))
    assert not looks.matches(entry({"tenant": "south", "selected_ids": ["m"]}))
    assert looks.matches(entry({"memories": [{"tenant": "south"}, {"tenant": "north", "id": "m"}]}))


@pytest.mark.parametrize(("kind", "key"), [("user", "user"), ("user", "user_id"), ("session", "session_id")])
def test_a_user_and_a_session_match_under_their_own_key_only(kind: str, key: str):
    looks = matcher(Target.of(kind, "default", "ana"))  # pyright: ignore[reportArgumentType]
    assert looks.matches(entry({key: "ana"}))
    assert not looks.matches(entry({"speaker": "ana"}))


def test_a_tenant_matches_by_name_and_the_default_one_where_a_message_names_none():
    letter = {b"field:envelope": b'{"payload": {"fragment": "x"}}', b"reason": b"bad"}
    assert matcher(Target.of("tenant", "default")).matches(letter)
    assert not matcher(Target.of("tenant", "north")).matches(letter)
    assert matcher(Target.of("tenant", "north")).matches(entry({"tenant": "north"}))
    assert not matcher(Target.of("tenant", "default")).matches(entry({"bundle": {"items": []}}))


def test_a_name_is_looked_for_as_whole_words_in_any_case():
    looks = matcher(Target.of("person", "default", "Ana Lind"))
    assert looks.matches(entry({"query": "what did ana lind say?"}))
    assert not looks.matches(entry({"query": "what did Dana Lind or Ana Lindqvist say?"}))


@pytest.mark.parametrize("name", ["Ana", "O'Brien (Jr.)", 'Ana "Bee" Lind', "Tromsø + Voss", "a\\b"])
def test_the_pattern_of_a_name_finds_it_in_json(name: str):
    pattern = Target.of("person", "default", name).name_pattern
    assert pattern is not None
    for text in (name, f"{name}, who left", f"was it {name}?"):
        assert re.search(pattern, json.dumps({"text": text}, ensure_ascii=False)), text
    assert not re.search(pattern, json.dumps({"text": f"x{name}x"}, ensure_ascii=False))


def test_a_blanked_decision_keeps_figures_and_loses_words():
    payload = {
        "id": "d",
        "corr_id": "c",
        "query": "who?",
        "intent": "why",
        "error": "it said who",
        "tenant": "north",
        "user_id": "ana",
        "session_id": "s",
        "selected_ids": ["m"],
        "latency_ms": 3,
        "sources": {"rdf": {"status": "failed", "count": 0, "error": "who"}},
        "understood": {"class": "fact", "entities": [{"name": "Ana"}], "people": ["Ana"], "time": {"words": "may"}},
        "asked": {
            "options": {"k": 3, "user": "ana", "tags": ["who"], "context": "Ana left"},
            "turn": {"active_turn_text": "who?"},
            "scope": {"name": "user", "user_id": "ana"},
            "clock": "2026-03-01T12:00:00+00:00",
            "zone": "UTC",
            "limits": {"search_ms": 1950},
        },
        "read_at": {"index": 7, "graph": 7},
        "not_replayable": None,
    }
    found = blanked(payload, with_asker=False)
    assert found == payload | {
        "query": "",
        "intent": None,
        "error": "forgotten",
        "sources": {"rdf": {"status": "failed", "count": 0}},
        "understood": {"class": "fact"},
        "asked": {"clock": "2026-03-01T12:00:00+00:00", "zone": "UTC", "limits": {"search_ms": 1950}},
        "not_replayable": "forgotten",
    }
    assert blanked(found, with_asker=False) == found
    alone = blanked(payload, with_asker=True)
    assert (alone["user_id"], alone["session_id"], alone["corr_id"], alone["tenant"]) == (None, None, "d", "north")


def test_a_forgotten_memory_is_no_candidate_of_a_decision_on_the_bus():
    payload = {
        "id": "d",
        "query": "",
        "candidates": [
            {"id": "m1", "kept": True},
            {"id": "m2", "dropped": "near_duplicate", "dropped_for": "m3"},
            {"id": "m3", "dropped": "below_min_score", "dropped_for": None},
        ],
    }
    left = blanked(payload, with_asker=False, ids={"m3"})["candidates"]
    assert [(one["id"], one.get("dropped_for")) for one in left] == [("m1", None), ("m2", None)]
    assert blanked(payload, with_asker=False)["candidates"] == payload["candidates"]
