"""Signatures: what they cover, and what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.signing.keys import Key, read_signature, sign, sign_within, unsigned_line

KEY = Key(id="ana-1", secret=b"s" * 32)
MESSAGE = b'{"kind": "recall.query.v1", "payload": {"fragment": "What?"}}'
STREAM = "p:recall.query.v1"


def is_valid(field: bytes | None, message: bytes, *, stream: str = STREAM, secret: bytes = KEY.secret) -> bool:
    found = read_signature(field, message)
    return found is not None and found.is_by(secret, stream=stream)


def test_a_signature_is_of_one_key_one_stream_and_every_byte():
    field = sign(KEY, MESSAGE, stream=STREAM, time=1_700_000_000.9)
    assert is_valid(field, MESSAGE)
    assert not is_valid(field, MESSAGE, secret=b"t" * 32)
    assert not is_valid(field, MESSAGE, stream="p:memory.delete.v1")
    for place in range(len(MESSAGE)):
        assert not is_valid(field, MESSAGE[:place] + b"~" + MESSAGE[place + 1 :]), place


@pytest.mark.parametrize(
    ("told", "changed"),
    [
        (b"key=ana-1", b"key=ana-2"),
        (b"time=1700000000", b"time=1700000001"),
        (b"nonce=", b"nonce=0"),
        (b"v1;", b"v2;"),
    ],
)
def test_key_time_and_nonce_are_signed_too(told: bytes, changed: bytes):
    field = sign(KEY, MESSAGE, stream=STREAM, time=1_700_000_000)
    assert told in field
    assert not is_valid(field.replace(told, changed), MESSAGE)


def within(fragment: str = "What?") -> bytes:
    line = unsigned_line(KEY, time=1_700_000_000)
    whole = {"trace": {"orion_signature": line, "work": 7}, "payload": {"fragment": fragment}}
    return sign_within(KEY, json.dumps(whole).encode(), line, stream=STREAM)


def test_a_message_on_a_channel_holds_its_signature_itself():
    message = within()
    assert is_valid(None, message)
    assert json.loads(message)["trace"]["work"] == 7
    assert not is_valid(None, message.replace(b"What", b"Whom"))
    assert not is_valid(None, message.replace(b'"work": 7', b'"work": 8'))


def test_of_two_signatures_within_a_message_neither_counts():
    line = unsigned_line(KEY, time=1)
    twice = json.dumps({"trace": {"orion_signature": line}, "payload": {"orion_signature": line}}).encode()
    assert read_signature(None, sign_within(KEY, twice, line, stream=STREAM)) is None


@given(field=st.one_of(st.none(), st.binary(max_size=200)), message=st.binary(max_size=200))
def test_whatever_is_no_signature_is_refused_and_never_an_error(field: bytes | None, message: bytes):
    assert not is_valid(field, message)


def test_a_key_does_not_show_its_secret():
    assert "ssss" not in repr(KEY)
