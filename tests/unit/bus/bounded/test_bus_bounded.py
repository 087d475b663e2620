"""Giants: what a message costs is known from its bytes, before anything is built of it."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.bus.bounded import ON_LOOP_BYTES, has_more_values, read_apart, sender_of
from orion_recall.bus.envelope import Received, decode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import (
    MemoryDeleteV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    RecallFeedbackV1,
    RecallQueryV1,
    read_message,
)
from orion_recall.errors import InvalidMessage

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
TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


def message(payload: str) -> bytes:
    """An envelope as our client writes it, with this JSON as its payload."""
    return json.dumps(FIRST).encode()[:-1] + b', "payload": ' + payload.encode("utf-8", "surrogatepass") + b"}"


def read(raw: bytes, *, kind: str = STORE, max_bytes: int = STORE_BYTES) -> Received:
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
    received = read(raw)
    assert "too many values" in str(received.error)
    assert len(str(received.error)) < 400
    assert (received.correlation_id, received.reply_to) == ("c-1", "recall.reply.v1:me")
    assert peak_of(lambda: read(raw)) < 2 << 20


@given(st.binary(max_size=400), st.binary(max_size=100))
@example(b'{"id": "\xff', b'"}')
@example(b'{"id": NaN, "payload": {"payload": {"a": [', b",}")
@example(b'{"a": ' * 60, b', "a": 1' * 20 + b"}")
def test_a_sender_is_looked_for_in_any_bytes(head: bytes, tail: bytes) -> None:
    assert all(isinstance(name, str) for name in sender_of(head, tail))


LARGE = {
    "plain": 'A text, with commas and \\"quotes\\" in it. ',
    "letters of two bytes": "Müller sagt, daß es schön ist. ",
    "letters of three bytes": "彼女は灯台守です、たぶん。",
    "escapes": "a line\\nand \\u00e9 and \\u2019 ",
    "half pairs": "a half \\ud800 and \\\\ud800 ",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_message_is_read_in_four_times_its_bytes(name: str) -> None:
    text = LARGE[name]
    texts = [text * (7000 // len(text.encode())) for _ in range(1000)]
    memories = ", ".join(f'{{"id": "m-{n}", "text": "{text}"}}' for n, text in enumerate(texts))
    raw = message('{"memories": [' + memories + "]}")
    assert len(raw) > 6_000_000
    received = read(raw)
    assert received.error is None
    whole = json.loads(f'"{texts[0]}"').encode("utf-8", "replace").replace(b"?", b"")
    assert received.payload["memories"][999]["text"].encode().replace("\ufffd".encode(), b"") == whole
    # The bytes themselves are one of the four.
    assert peak_of(lambda: read_message(MemoryStoreV1, read(raw).payload, "payload")) < 3 * len(raw)


def test_a_large_message_is_read_as_a_small_one_is() -> None:
    small = (
        '{"a": "\\ud83d\\ude00 \\ud800 \\udc00x \\\\ud800", "b": [1, -0.5, 1e3, null, {}], "c\\u0000": "\\u0000"}'
    )
    padded = small[:-1] + ', "padding": "' + "x" * ON_LOOP_BYTES + '"}'
    expected = read(message(small)).payload
    assert {name: value for name, value in read(message(padded)).payload.items() if name != "padding"} == expected


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ('{"a": NaN, ', "not JSON"),
        ('{"a": 1e999, ', "too large"),
        ('{"a": ' + "9" * 5000 + ", ", "not JSON"),
        ('{"a": ' + "[" * 150 + "]" * 150 + ", ", "levels deep"),
        ('{"a": ' + "[" * 900 + "]" * 900 + ", ", "levels deep"),
        ("{", None),
    ],
)
def test_what_is_wrong_in_a_large_message_leaves_readable_whom_to_answer(payload: str, said: str | None) -> None:
    received = read(message(payload + '"padding": "' + "x" * ON_LOOP_BYTES + '"}'))
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


@pytest.mark.parametrize(
    ("model", "payload"),
    [
        (RecallQueryV1, {"fragment": "a", "options": {"tags": [7] * 100_000}}),
        (RecallQueryV1, {"fragment": "a", "options": {"kinds": [7] * 100_000}}),
        (RecallQueryV1, {"fragment": "a", "options": {"exclude": [7] * 100_000}}),
        (MemoryStoreV1, {"memories": [7] * 100_000}),
        (MemoryUpdateV1, {"memories": [7] * 100_000}),
        (MemoryDeleteV1, {"ids": [7] * 100_000}),
        (RecallFeedbackV1, {"decision_id": "d", "used": [7] * 100_000}),
        (RecallFeedbackV1, {"decision_id": "d", "wrong": ["x" * 600] * 100_000}),
    ],
)
def test_a_list_that_is_too_long_is_one_error_and_its_elements_are_none(
    model: type[Any], payload: dict[str, Any]
) -> None:
    def validate() -> str:
        with pytest.raises(InvalidMessage) as refused:
            read_message(model, payload, "payload")
        return str(refused.value)

    said = validate()
    assert "should have at most" in said
    assert said.count("; ") <= 1
    assert len(said) < 400
    assert peak_of(validate) < 1 << 20


@pytest.mark.parametrize(("size", "apart"), [(ON_LOOP_BYTES, False), (ON_LOOP_BYTES + 1, True)])
async def test_what_is_large_is_read_on_another_thread(size: int, apart: bool) -> None:
    thread = await read_apart(size, threading.current_thread)
    assert (thread is not threading.current_thread()) is apart
    assert not apart or thread.name.startswith("orion-large-message")
