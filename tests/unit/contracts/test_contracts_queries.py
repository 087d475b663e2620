"""Queries: options that must be known, hints of executors, small talk; decisions in their V1 form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orion_recall.contracts import RecallDecisionV1, RecallQueryV1, ignored_fields, read_message, v1_decision
from orion_recall.contracts.recall import ExcludedTurn
from orion_recall.errors import InvalidMessage
from orion_recall.shipped import shipped_folder
from tests.stand_ins.mesh import FOUNDING, LATER, MeshDecision


def read(**fields: Any) -> RecallQueryV1:
    return read_message(RecallQueryV1, {"fragment": "a", **fields}, "payload")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tennant": "acme"}, r"payload\.options: there is no field 'tennant'; did you mean tenant\?"),
        ({"include": {"trce": True}}, r"payload\.options\.include: there is no field 'trce'; did you mean trace\?"),
        ({"context": "We spoke of Ana."}, "`context` is no longer read: put the names into the fragment"),
        ({"fact_type": "world"}, "`fact_type` is no longer read: it is called kinds"),
        ({"kinds": "plan"}, r"options\.kinds: Input should be a valid list"),
        ({"budget": "huge"}, r"options\.budget: .*'low', 'mid' or 'high'"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        read(options=options)


@pytest.mark.parametrize("options", [{"tennant": "acme"}, {"include": {"trce": True}}, {"zzz": None}])
def test_the_schema_has_no_unknown_option_either(options: dict[str, Any]) -> None:
    schema = json.loads((shipped_folder("contracts") / "recall.query.v1.schema.json").read_text("utf-8"))
    validator: Any = Draft202012Validator(schema)
    assert validator.is_valid({"fragment": "a", "options": {"tenant": "acme", "include": {"trace": True}}})
    assert not validator.is_valid({"fragment": "a", "options": options})


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
@pytest.mark.parametrize("fragment", ["", "Who feeds the gulls?"])
def test_the_queries_of_executors_are_read(state: Any, fragment: str) -> None:
    made = read_message(RecallQueryV1, {"fragment": fragment, **state.fields, "reply_to": "r"}, "payload")
    assert (made.fragment, made.session_id, made.node_id, made.profile) == (fragment, None, None, "reflect.v1")


def test_empty_and_null_are_absent_and_count_nothing() -> None:
    names = [name for name in RecallQueryV1.model_fields if name != "fragment"]
    for nothing in ("", None):
        assert read(**dict.fromkeys(names, nothing)) == read()
        assert ignored_fields({"fragment": "a", **dict.fromkeys(names, nothing)}) == 0


TURN: dict[str, Any] = {"active_turn_ids": ["a"], "active_turn_text": "b", "active_turn_ts": 1772439330.5}


@pytest.mark.parametrize(
    ("exclude", "turn", "ignored"),
    [
        (TURN, ExcludedTurn(active_turn_ids=("a",), active_turn_text="b", active_turn_ts=1772439330.5), 0),
        ({}, ExcludedTurn(), 0),
        ({"active_turn_ids": None, "active_turn_text": None, "active_turn_ts": None}, ExcludedTurn(), 0),
        ({"active_turn_ids": ["a", 7, "", None]}, ExcludedTurn(active_turn_ids=("a",)), 1),
        ({"active_turn_text": ["b"]}, ExcludedTurn(), 1),
        ({"active_turn_ts": "soon"}, ExcludedTurn(), 1),
        ({"active_turn_ts": 1e300}, ExcludedTurn(), 1),
        ({"active_turn_ts": "2026-03-02T08:15:30.5Z"}, ExcludedTurn(active_turn_ts=1772439330.5), 0),
        ({"mood": "grey"}, ExcludedTurn(), 1),
        ("m-1", None, 1),
    ],
    ids=str,
)
def test_what_can_be_read_of_the_active_turn_is_used_and_the_rest_is_counted(
    exclude: Any, turn: ExcludedTurn | None, ignored: int
) -> None:
    assert read(exclude=exclude).exclude == turn
    assert ignored_fields({"fragment": "a", "exclude": exclude}) == ignored


@pytest.mark.parametrize("lane", [7, ["chat"], {"name": "chat"}])
def test_a_lane_that_is_no_text_is_ignored_and_counted(lane: Any) -> None:
    assert read(lane=lane).lane is None
    assert ignored_fields({"fragment": "a", "lane": lane}) == 1
    assert ignored_fields({"fragment": "a", "lane": "chat"}) == 0


def test_hints_that_mean_nothing_here_are_counted_where_they_say_something() -> None:
    assert ignored_fields({"fragment": "a", **LATER.fields, "lane": ""}) == 1, "recall_phase"
    said = {"profile_explicit": True, "retrieval_intent": 7, "task_hints": ["a"], "seed_crystallization_id": "c"}
    assert ignored_fields({"fragment": "a", **said, "active_packet_digest_budget": 3, "mood": "", "x": None}) == 7


@pytest.mark.parametrize(("measured", "whole"), [(38.214, 38), (0.5, 1), (1.5, 2), (0.499, 0), (-0.7, 0), (12, 12)])
def test_the_v1_form_of_a_decision_is_what_a_strict_reader_takes(measured: float, whole: int) -> None:
    example = json.loads((shipped_folder("contracts") / "examples/decision.json").read_text("utf-8"))["payload"]
    made = RecallDecisionV1.model_validate(example | {"latency_ms": measured, "session_id": None, "dropped": {}})
    told = json.loads(json.dumps(v1_decision(made)))
    read = MeshDecision.model_validate(told)
    assert set(told) == set(MeshDecision.model_fields)
    for name in ("id", "corr_id", "query", "selected_ids"):
        assert getattr(read, name) == getattr(made, name)
    assert told["latency_ms"] == whole
