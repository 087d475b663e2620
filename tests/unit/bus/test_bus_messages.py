"""Messages: any bytes are read within limits, and their sender can be answered."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.bus.bounded import ON_LOOP_BYTES, has_more_values, sender_of
from orion_recall.bus.envelope import Received, decode, encode
from orion_recall.bus.group_reader import Entry
from orion_recall.telemetry import continue_trace
from tests.stand_ins.mesh import MeshEnvelope

KIND = "recall.query.v1"
# Every character there is, lone surrogates and NUL among them.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from([10**400, -(10**400), 1e308]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def read(*, fields: dict[bytes, bytes] | None = None, max_bytes: int = 1_000_000, **envelope: Any) -> Received:
    fields = {b"envelope": json.dumps({"payload": {}} | envelope).encode()} if fields is None else fields
    return decode(Entry(id="1700000000000-5", fields=fields), kind=KIND, max_bytes=max_bytes)


def holds(received: Received) -> bool:
    """What is true of everything that was read: a sender to answer, and an answer that can be written."""
    assert received.correlation_id
    assert received.error is None or str(received.error)
    reply = encode(
        "recall.reply.v1",
        b"{}",
        correlation_id=received.correlation_id,
        source={"name": "orion-recall"},
        trace=continue_trace(received.trace).trace,
        causality_chain=received.onward_chain,
    )
    written = json.loads(reply, parse_constant=_no_constant)
    assert written["correlation_id"] == received.correlation_id
    MeshEnvelope.model_validate(written | {"correlation_id": str(uuid4())})
    assert received.expires_at is None or math.isfinite(received.expires_at)
    return True


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@given(st.dictionaries(st.sampled_from([b"envelope", b"data", b"other"]), st.binary(max_size=200)))
def test_arbitrary_bytes_are_read_without_an_exception(fields: dict[bytes, bytes]) -> None:
    assert holds(read(fields=fields))


@given(JSON)
@example([[[]]])
@example({"payload": {"fragment": "a"}, "ttl_ms": 10**400})
@example({"payload": {}, "created_at": 10**400})
@example({"payload": {}, "created_at": -(10**400)})
@example({"payload": {}, "created_at": "0001-01-01T00:00:00+23:59"})
@example({"payload": {}, "causality_chain": [math.inf]})
def test_arbitrary_json_is_read_without_an_exception(value: Any) -> None:
    assert holds(read(fields={b"envelope": json.dumps(value).encode()}))


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_any_text_that_is_not_empty_is_a_correlation_id_and_is_kept_as_it_is(name: str) -> None:
    assert read(correlation_id=name).correlation_id == name
    assert read(corr_id=name).correlation_id == name


@pytest.mark.parametrize("envelope", [{}, {"correlation_id": 7}, {"correlation_id": ""}, {"correlation_id": None}])
def test_without_a_usable_correlation_id_it_is_the_messages_id_and_else_a_uuid_that_stays_the_same(
    envelope: dict[str, Any],
) -> None:
    made = read(**envelope).correlation_id
    assert str(UUID(made)) == made
    assert {made} == {read(**envelope).correlation_id, read(fields={b"envelope": b"no JSON"}).correlation_id}
    other = Entry(id="1700000000000-6", fields={})
    assert decode(other, kind=KIND, max_bytes=9).correlation_id != made
    assert read(**envelope, id="m-1").correlation_id == "m-1"


def test_a_message_of_just_the_limit_is_read_and_one_byte_more_is_not() -> None:
    text = json.dumps({"payload": {}}).encode()
    assert read(fields={b"envelope": text}, max_bytes=len(text)).error is None
    assert f"has {len(text)} bytes" in str(read(fields={b"envelope": text}, max_bytes=len(text) - 1).error)


LINK: dict[str, Any] = {
    "correlation_id": "7d0c2f2e-5a43-4a55-9a60-0f6f3a0b7a01",
    "kind": "cortex.plan",
    "source": {"name": "cortex-orch", "node": "athena"},
    "created_at": "2026-03-02T08:15:30Z",
}
CORRELATION = "0c1f8e5a-63c2-4f0b-a1de-2f9d4c7b8e10"
ASKED: dict[str, Any] = {"correlation_id": CORRELATION, "source": {"name": "cortex-exec", "version": "1"}}


def test_the_causality_chain_grows_by_one_link_for_the_message_that_is_answered() -> None:
    received = read(**ASKED, kind=KIND, causality_chain=[LINK], created_at="2026-03-02T08:15:31")
    first, last = received.onward_chain
    assert first == LINK
    assert last == ASKED | {"kind": KIND, "created_at": "2026-03-02T08:15:31+00:00"}


@pytest.mark.parametrize(
    "odd",
    [
        "turn-1", 7, None, {}, {"step": 2}, LINK | {"correlation_id": "turn-1"}, LINK | {"more": 1},
        LINK | {"source": "cortex-orch"}, LINK | {"source": {"name": "a", "host": "b"}},
        LINK | {"created_at": "now"},
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_link_is_left_out_and_counted_and_the_message_is_read(odd: Any) -> None:
    received = read(**ASKED, causality_chain=[odd, LINK, odd])
    assert received.error is None
    assert received.onward_chain[0] == LINK
    assert len(received.onward_chain) == 2
    assert received.unknown_fields == 2


def test_text_that_no_store_can_hold_is_replaced_everywhere_but_in_the_correlation_id() -> None:
    received = read(correlation_id="c\x00", payload={"k\ud800": ["\x00"]}, trace={"a": "\udfff"})
    assert received.correlation_id == "c\x00"
    assert received.payload == {"k\ufffd": ["\ufffd"]}
    assert received.trace == {"a": "\ufffd"}


@pytest.mark.parametrize(
    ("payload", "has"),
    [
        ({}, False), ({"options": None}, False), ({"options": ""}, False), ("text", False),
        ({"options": {}}, True), ({"options": {"k": 7}}, True), ({"options": 7}, True),
    ],
    ids=str,
)  # fmt: skip
def test_whether_a_sender_gave_options_is_known_whatever_is_wrong_with_the_message(payload: Any, has: bool) -> None:
    assert read(payload=payload).has_options is has
    assert read(payload=payload, ttl_ms="soon").has_options is has
    assert read(payload=payload, x=math.inf).has_options is has


QUERY, STORE = "recall.query.v1", "memory.store.v1"
QUERY_BYTES, STORE_BYTES = 262_144, 8_388_608
FIRST: dict[str, Any] = {
    "schema": "orion.envelope",
    "correlation_id": "c-1",
    "source": {"name": "test"},
    "reply_to": "recall.reply.v1:me",
    "trace": {},
    "causality_chain": [],
}


def message(payload: str) -> bytes:
    """An envelope as our client writes it, with this JSON as its payload."""
    return json.dumps(FIRST).encode()[:-1] + b', "payload": ' + payload.encode("utf-8", "surrogatepass") + b"}"


def read_bounded(raw: bytes, *, kind: str = STORE, max_bytes: int = STORE_BYTES) -> Received:
    return decode(Entry(id="1700000000000-5", fields={b"envelope": raw}), kind=kind, max_bytes=max_bytes)


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that were allocated at a time while it ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def many(value: str, size: int = 8_000_000) -> str:
    return ", ".join([value] * (size // (len(value) + 2)))


def separators_in(value: Any) -> int:
    """The commas and opening brackets that the value has as JSON, counted by walking it."""
    if not isinstance(value, dict | list):
        return 0
    parts: list[Any] = list(value.values() if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return max(1, len(parts)) + sum(separators_in(part) for part in parts)


GIANTS: dict[str, Callable[[], str]] = {
    "tags": lambda: '{"fragment": "a", "options": {"tags": [' + many('"a"') + "]}}",
    "numbers": lambda: '{"fragment": "a", "options": {"tags": [' + many("1") + "]}}",
    "ids": lambda: '{"ids": [' + many("7") + "]}",
    "used": lambda: '{"decision_id": "d", "used": [' + many("null") + "]}",
    "memories": lambda: '{"memories": [' + many("{}") + "]}",
    "bad tags": lambda: (
        '{"memories": [' + ", ".join(['{"id": "m", "tags": [' + many("1", 6000) + "]}"] * 1000) + "]}"
    ),
    "metadata": lambda: (
        '{"memories": [{"id": "m", "metadata": {' + ", ".join(f'"{n}": 1' for n in range(500_000)) + "}}]}"
    ),
    "lists in lists": lambda: "[" * 4_000_000 + "]" * 4_000_000,
    "objects in objects": lambda: '{"a": ' * 1_300_000,
}


@pytest.mark.parametrize("name", GIANTS)
def test_a_giant_is_refused_in_little_memory_and_its_sender_is_known(name: str) -> None:
    raw = message(GIANTS[name]())
    received = read_bounded(raw)
    assert "too many values" in str(received.error)
    assert len(str(received.error)) < 400
    assert (received.correlation_id, received.reply_to) == ("c-1", "recall.reply.v1:me")
    assert peak_of(lambda: read_bounded(raw)) < 2 << 20


@given(st.binary(max_size=400), st.binary(max_size=100))
@example(b'{"id": "\xff', b'"}')
@example(b'{"id": NaN, "payload": {"payload": {"a": [', b",}")
@example(b'{"a": ' * 60, b', "a": 1' * 20 + b"}")
def test_a_sender_is_looked_for_in_any_bytes(head: bytes, tail: bytes) -> None:
    assert all(isinstance(name, str) for name in sender_of(head, tail))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"a": NaN, ', "not JSON"),
        ('{"a": 1e999, ', "too large"),
        ('{"a": ' + "[" * 150 + "]" * 150 + ", ", "levels deep"),
        ('{"a": ' + "[" * 900 + "]" * 900 + ", ", "levels deep"),
        ("{", None),
    ],
)
def test_what_is_wrong_in_a_large_message_leaves_readable_whom_to_answer(payload: str, said: str | None) -> None:
    received = read_bounded(message(payload + '"padding": "' + "x" * ON_LOOP_BYTES + '"}'))
    assert (received.correlation_id, received.reply_to) == ("c-1", "recall.reply.v1:me")
    assert received.error is None if said is None else said in str(received.error)


@given(JSON)
@example(['"', "\\", '\\"', ","])
def test_commas_and_brackets_outside_of_strings_are_counted(value: Any) -> None:
    count = separators_in(value)
    # What is shorter than its values can be is not looked at.
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b" " * (2 * count + 2)
    assert not has_more_values(raw, count)
    assert count == 0 or has_more_values(raw, count - 1)


@pytest.mark.parametrize("name", ["kind", "event"])
def test_a_query_may_come_under_another_kind(name: str) -> None:
    text = json.dumps({"payload": {}, name: "recall.query.request"}).encode()
    entry = Entry(id="1700000000000-5", fields={b"envelope": text})
    assert decode(entry, kind=KIND, max_bytes=1000).error is None
    other = decode(entry, kind="memory.store.v1", max_bytes=1000)
    assert "expected memory.store.v1" in str(other.error)
