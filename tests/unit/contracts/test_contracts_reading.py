"""Messages as they are read: strict types, lenient names, times with zones, names that can be stored."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from orion_recall.contracts import (
    Envelope,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryV1,
    RecallDecisionV1,
    RecallOptionsV1,
    RecallQueryV1,
    RecallReplyV1,
    count_unknown,
    read_message,
)
from orion_recall.contracts.fields import zoned_moment
from orion_recall.errors import InvalidMessage
from orion_recall.shipped import shipped_folder

NINE_THIRTY = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
MODELS = [
    Envelope, RecallQueryV1, RecallReplyV1, RecallDecisionV1, MemoryV1, MemoryStoreV1, MemoryReceiptV1,
]  # fmt: skip
NAMES = sorted({name for model in MODELS for name in model.model_fields} | {"schema", "corr_id", "event", "ts"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=10,
)


def query(**fields: Any) -> RecallQueryV1:
    return read_message(RecallQueryV1, {"fragment": "where is Ana?", **fields}, "payload")


def test_only_the_fragment_is_required():
    assert query().model_dump(exclude_unset=True) == {"fragment": "where is Ana?"}
    with pytest.raises(InvalidMessage, match=r"^payload\.fragment: Field required$"):
        read_message(RecallQueryV1, {"verb": "reflect"}, "payload")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fragment": 7}, r"payload\.fragment: .*string \(got 7\)"),
        ({"options": {"k": "8"}}, r"payload\.options\.k: .*integer \(got '8'\)"),
        ({"options": {"k": 0}}, r"payload\.options\.k: "),
        ({"options": {"min_score": 1.5}}, r"payload\.options\.min_score: "),
        ({"options": {"scope": "world"}}, r"payload\.options\.scope: "),
        ({"options": {"since": "2026-03-01T09:30:00"}}, r"payload\.options\.since: the time has no zone"),
        ({"options": {"include": {"trace": 1}}}, r"payload\.options\.include\.trace: "),
        ({"options": []}, r"payload\.options: "),
    ],
)
def test_a_wrong_type_in_a_known_field_is_an_error_that_names_it(fields: dict[str, Any], said: str):
    with pytest.raises(InvalidMessage, match=said):
        query(**fields)


def test_several_mistakes_are_told_at_once_and_long_values_are_cut():
    with pytest.raises(InvalidMessage) as caught:
        query(verb=7, intent=10**5000, profile={"long": "x" * 500, "deep": [[[[[1]]]]]})
    assert str(caught.value).count("; ") == 2
    assert "a number of 16610 bits" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T09:30:00Z", "2026-03-01T10:30:00+01:00", "2026-03-01 09:30:00+00:00", 1772357400,
        1772357400.0, 1772357400000, 1772357400000.0, NINE_THIRTY,
        NINE_THIRTY.astimezone(timezone(timedelta(hours=2))),
    ],
    ids=repr,
)  # fmt: skip
def test_a_time_may_be_iso_or_epoch_seconds_or_milliseconds(value: object):
    assert zoned_moment(value) == zoned_moment(value, naive_is_utc=True) == NINE_THIRTY
    assert zoned_moment(value).tzinfo is UTC


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-04-06T00:00:00Z", "2026-04-06T00:00:00+00:00"),
        (1775433600, "2026-04-06T00:00:00+00:00"),
        ("2026-04-05T21:00-03:00", "2026-04-06T00:00:00.001000+00:00"),
        ("2026-04-06T05:45:00+05:45", "2026-04-06T00:00:00.001000+00:00"),
        ("2026-04-06T00:00-03:00", "2026-04-06T03:00:00+00:00"),
    ],
)
def test_what_a_clock_showed_at_midnight_in_utc_is_no_date_alone(given: object, stored: str):
    memory = read_message(MemoryV1, {"id": "a", "text": "b", "occurred_at": given}, "memory")
    assert memory.occurred_at is not None
    assert memory.occurred_at.isoformat() == stored
    assert read_message(MemoryV1, {"id": "a", "text": "b", "occurred_at": stored}, "memory") == memory


def test_a_time_without_a_zone_is_utc_in_envelopes_and_refused_elsewhere():
    assert zoned_moment("2026-03-01T09:30:00", naive_is_utc=True) == NINE_THIRTY
    with pytest.raises(ValueError, match="no zone"):
        zoned_moment("2026-03-01T09:30:00")
    with pytest.raises(ValueError, match="no zone"):
        zoned_moment("2026-03-01")


@pytest.mark.parametrize(
    "value",
    [True, None, "soon", "", [], {}, float("nan"), float("inf"), 1e300, 10**400, -(10**400),
     "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_time_is_a_message_error(value: object):
    with pytest.raises(ValueError, match=r"time"):
        zoned_moment(value, naive_is_utc=True)
    with pytest.raises(InvalidMessage, match=r"memory\.occurred_at"):
        read_message(MemoryV1, {"id": "a", "text": "b", "occurred_at": value or "no"}, "memory")


@given(st.floats(min_value=-6e10, max_value=9.9e10))
def test_an_epoch_time_survives_to_the_microsecond(seconds: float):
    assert abs(zoned_moment(seconds).timestamp() - seconds) < 1e-5


@pytest.mark.parametrize(
    ("long", "short", "value"),
    [
        ("correlation_id", "corr_id", "c-1"),
        ("kind", "event", "recall.query.v1"),
        ("created_at", "ts", 1772357400),
        ("source", "service", {"name": "cortex", "node": "athena"}),
    ],
)
def test_the_envelope_takes_short_names_and_gives_long_ones(long: str, short: str, value: object):
    by_long = read_message(Envelope, {long: value, "payload": {}}, "envelope")
    by_short = read_message(Envelope, {short: value, "payload": {}}, "envelope")
    assert by_long == by_short
    assert by_short.model_dump()[long] is not None
    assert short not in by_short.model_dump()
    assert count_unknown(Envelope, {short: value, "payload": {}}) == 0


@pytest.mark.parametrize("ttl_ms", [-1, 1.5, "2000", 10**30])
def test_a_ttl_is_a_whole_number_of_milliseconds_that_can_be_counted(ttl_ms: object):
    with pytest.raises(InvalidMessage, match=r"envelope\.ttl_ms"):
        read_message(Envelope, {"ttl_ms": ttl_ms, "payload": {}}, "envelope")


def test_unknown_fields_are_ignored_and_counted_in_nested_messages_too():
    payload = {"fragment": "a", "mood": "blue", "options": {"k": 3, "include": {"trace": True}}}
    assert query(**payload).options == RecallOptionsV1.model_validate({"k": 3, "include": {"trace": True}})
    assert count_unknown(RecallQueryV1, payload) == 1
    assert count_unknown(Envelope, {"payload": {"anything": 1}, "source": {"name": "a", "pid": 3}}) == 1


def test_the_keys_of_a_mapping_are_data_and_no_unknown_fields():
    stats = {"status": "ok", "count": 1, "ms": 1.0, "error": None}
    assert count_unknown(RecallDecisionV1, {"sources": {"vector": stats}, "stage_ms": {"fuse": 1.0}}) == 0


def test_a_store_message_leaves_its_memories_to_be_judged_alone():
    store = read_message(MemoryStoreV1, {"memories": [{"id": "a", "text": "b"}, {"id": 7}]}, "payload")
    assert [dict(memory) for memory in store.memories] == [{"id": "a", "text": "b"}, {"id": 7}]
    refused: list[Any] = [[], [{}] * 1001, ["a"], None]
    for memories in refused:
        with pytest.raises(InvalidMessage, match=r"payload\.memories"):
            read_message(MemoryStoreV1, {"memories": memories}, "payload")


@pytest.mark.parametrize("name", ["acme\x00", "\ud800acme", "ac\udfffme", "acme\ufffd"])
def test_names_that_would_be_one_name_once_they_are_stored_are_refused(name: str):
    for model, data, where in (
        (MemoryV1, {"id": name, "text": "a"}, "id"),
        (MemoryV1, {"id": "a", "text": "a", "tenant": name}, "tenant"),
        (RecallQueryV1, {"fragment": "a", "session_id": name}, "session_id"),
        (RecallQueryV1, {"fragment": "a", "options": {"tenant": name}}, "options.tenant"),
        (RecallQueryV1, {"fragment": "a", "options": {"user": name}}, "options.user"),
    ):
        with pytest.raises(InvalidMessage, match=f"^{re.escape(where)}: a name may hold neither NUL"):
            read_message(model, data, "")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@given(data=JSON)
def test_whatever_arrives_is_a_message_or_an_invalid_one(model: type[BaseModel], data: object):
    try:
        message = read_message(model, data, "payload")
    except InvalidMessage as error:
        assert str(error).startswith("payload")
    else:
        assert isinstance(data, dict)
        assert count_unknown(model, {str(name): value for name, value in data.items()}) >= 0  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        message.model_dump()


def test_the_now_of_a_query_keeps_its_offset_and_a_zone_is_one():
    options = RecallOptionsV1.model_validate({"as_of": "2026-03-01T12:00:00+02:00", "timezone": "Europe/Berlin"})
    assert options.as_of is not None
    assert options.as_of.utcoffset() == timedelta(hours=2)
    assert options.timezone == "Europe/Berlin"
    assert RecallOptionsV1.model_validate({"as_of": options.as_of}).as_of == options.as_of
    assert json.loads(options.model_dump_json())["as_of"] == "2026-03-01T12:00:00+02:00"
    assert RecallOptionsV1.model_validate({"as_of": NINE_THIRTY}).as_of == NINE_THIRTY
    with pytest.raises(InvalidMessage, match=r"payload\.timezone: not a time zone"):
        read_message(RecallOptionsV1, {"timezone": "Mars/Olympus"}, "payload")


@pytest.mark.parametrize(
    ("source", "is_one"), [("rdf", True), ("opensearch", True), ("No name]", False), ("", False)]
)
def test_an_item_may_be_of_any_source_whose_name_is_one(source: str, is_one: bool) -> None:
    example: Any = json.loads((shipped_folder("contracts") / "examples" / "reply.json").read_text("utf-8"))
    reply: Any = example["payload"]
    reply["bundle"]["items"][0]["source"] = source
    if is_one:
        read = read_message(RecallReplyV1, reply, "payload")
        assert read.bundle.items[0].source == source
    else:
        with pytest.raises(InvalidMessage, match=re.escape("payload.bundle.items.0.source")):
            read_message(RecallReplyV1, reply, "payload")
