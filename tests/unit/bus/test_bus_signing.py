"""Signed messages: keys, signatures, and what a caller may do."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from orion_recall.bus.envelope import Received, decode
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers, tenant_of
from orion_recall.bus.signing.keys import (
    Caller,
    Key,
    KeyRing,
    Right,
    read_key,
    read_ring,
    read_signature,
    sign,
    written_caller,
    written_key,
)
from orion_recall.errors import LateSignature, RefusedMessage, SettingsError
from orion_recall.settings import Settings
from tests.stand_ins.signed import sign_within, unsigned_line

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


SECRET = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" * 2


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def caller(name: str, *tenants: str, until: datetime | None = None) -> Caller:
    rights: frozenset[Right] = frozenset(("recall", "write"))
    return Caller(id=name, secret=os.urandom(32), tenants=tenants or ("ana",), may=rights, until=until)


def test_what_is_written_is_read_back(tmp_path: Path):
    first = caller("one", "ana", 'a "quoted"\\ tenant\n')
    second = caller("two", "*", until=datetime(2027, 1, 31, tzinfo=UTC))
    ring = written(tmp_path / "ring", written_caller(first) + written_caller(second))
    assert read_ring(ring) == {"one": first, "two": second}
    assert read_key(written(tmp_path / "key", written_key(first))) == Key(id=first.id, secret=first.secret)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o606])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int):
    for read, text in ((read_ring, written_caller(caller("one"))), (read_key, written_key(caller("one")))):
        path = written(tmp_path / "file", text, mode)
        with pytest.raises(SettingsError, match="others can read it: chmod 600"):
            read(path)


def key_lines(**changes: str | None) -> str:
    lines = {"id": '"one"', "secret": f'"{SECRET}"', "tenants": '["ana"]', "may": '["recall"]'} | changes
    return "[[keys]]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items() if value is not None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[keys]\n", "is not TOML"),
        (f'id = "one"\nsecret = "{SECRET}"\n', "id: Extra inputs"),
        (key_lines(id='"a b"'), "id: String should match"),
        (key_lines(secret='"c2hvcnQ="'), "32 random bytes"),
        (key_lines(tenants="[]"), "tenants: Tuple should have at least 1 item"),
        (key_lines(may='["recall", "rule"]'), "may.1: Input should be 'recall', 'write', 'delete' or 'feedback'"),
        (key_lines(until="2027-01-31T00:00:00"), "until: Input should have timezone info"),
        (key_lines(tenant='"ana"'), "tenant: Extra inputs"),
        (key_lines() + key_lines(), "two keys have the id 'one'"),
    ],
)
def test_a_ring_that_says_something_else_is_refused_and_no_secret_is_quoted(tmp_path: Path, text: str, why: str):
    with pytest.raises(SettingsError, match=why) as refused:
        read_ring(written(tmp_path / "ring", text))
    assert "c2VjcmV0" not in str(refused.value)
    assert str(tmp_path / "ring") in str(refused.value)


@pytest.mark.parametrize("slip", ["broken", "readable", "gone"])
def test_a_slip_is_told_once_and_the_keys_of_before_count(
    tmp_path: Path, slip: str, caplog: pytest.LogCaptureFixture
):
    one = caller("one")
    path = written(tmp_path / "ring", written_caller(one))
    ring = KeyRing(path)
    if slip == "gone":
        path.unlink()
    else:
        written(path, "[[" if slip == "broken" else written_caller(one), 0o644 if slip == "readable" else 0o600)
    assert [ring.caller("one"), ring.caller("one")] == [one, one]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    two = caller("two")
    written(path, written_caller(two))
    assert (ring.caller("one"), ring.caller("two")) == (None, two)


NOW = 1_700_000_000.0
MESSAGE_CALLERS = b'{"correlation_id": "c-1", "reply_to": "recall.reply.v1:me", "payload": {"fragment": "What?"}}'


class NoncesHere:
    """Nonces as the bus keeps them, which never expire."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def set(self, name: str, entry: bytes, *, nx: bool, get: bool, px: int) -> bytes | None:
        before = self.kept.get(name)
        self.kept.setdefault(name, entry)
        return before

    async def get(self, name: str) -> bytes | None:
        return self.kept.get(name)


class Scene:
    """Workers that share a ring and nonces. It is NOW on the bus."""

    def __init__(self, path: Path, *may: Right, tenants: tuple[str, ...] = ("ana",), over: bool = False) -> None:
        self.key, self.nonces, self.now = Key(id="one", secret=os.urandom(32)), NoncesHere(), NOW
        until = datetime.fromtimestamp(NOW if over else NOW + 1000, UTC)
        self.caller = Caller(
            id="one", secret=self.key.secret, tenants=tenants, may=frozenset(may or ("recall",)), until=until
        )
        path.write_text(written_caller(self.caller), encoding="utf-8")
        path.chmod(0o600)
        self.ring, self.count = KeyRing(path), 0

    def worker(self, kind: str = "recall.query.v1") -> Callers:
        settings = Settings(prefix="p:", signed_within_s=300)
        return Callers(self.ring, cast("Redis", self.nonces), settings, kind, now=lambda: self.now)

    def fields(self, kind: str = "recall.query.v1", *, time: float = NOW) -> dict[bytes, bytes]:
        return {
            b"envelope": MESSAGE_CALLERS,
            b"signature": sign(self.key, MESSAGE_CALLERS, stream=f"p:{kind}", time=time),
        }

    def received(self, fields: dict[bytes, bytes], *, deliveries: int = 1, entry_id: str | None = None) -> Received:
        self.count += 1
        entry = Entry(id=entry_id or f"{int(NOW)}000-{self.count}", fields=fields, deliveries=deliveries)
        return decode(entry, kind="recall.query.v1", max_bytes=100_000)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "ring")


@pytest.mark.parametrize("what", ["none", "garbage", "other stream", "changed", "unknown key", "no message"])
async def test_what_is_not_signed_by_a_known_key_is_refused_in_the_same_words(scene: Scene, what: str) -> None:
    fields = scene.fields()
    if what == "none":
        del fields[b"signature"]
    elif what == "garbage":
        fields[b"signature"] = b"v1;key=one"
    elif what == "other stream":
        fields = scene.fields("memory.delete.v1")
    elif what == "changed":
        fields[b"envelope"] = MESSAGE_CALLERS.replace(b"What", b"Whom")
    elif what == "unknown key":
        fields[b"signature"] = fields[b"signature"].replace(b"key=one", b"key=two")
    else:
        del fields[b"envelope"]
    checked = await scene.worker().checked(scene.received(fields))
    assert isinstance(checked.error, RefusedMessage)
    assert "takes signed messages only (ORION_KEYS_FILE)" in str(checked.error)
    assert (checked.caller, checked.payload) == (None, {})
    assert scene.nonces.kept == {}, "who has no key fills nothing"
    if what not in ("no message", "changed"):
        assert checked.reply_to == "recall.reply.v1:me", "it is answered"


async def test_a_message_that_came_before_is_refused_by_every_worker(scene: Scene) -> None:
    fields = scene.fields()
    assert (await scene.worker().checked(scene.received(fields))).error is None
    for worker in (scene.worker(), scene.worker()):
        again = await worker.checked(scene.received(fields))
        assert isinstance(again.error, RefusedMessage)
        assert "has come before" in str(again.error)


async def test_an_entry_that_is_delivered_again_is_taken_again_however_late(scene: Scene) -> None:
    received = scene.received(fields := scene.fields(), entry_id=f"{int(NOW)}000-7")
    assert (await scene.worker().checked(received)).error is None
    scene.now += 400
    for deliveries in (1, 2):  # its count begins anew where it waited for the record
        again = scene.received(fields, deliveries=deliveries, entry_id=f"{int(NOW)}000-7")
        assert (await scene.worker().checked(again)).error is None


@pytest.mark.parametrize("age_s", [-301, 301, 86_400])
async def test_a_signature_counts_for_a_while_by_the_clock_of_the_bus(scene: Scene, age_s: int) -> None:
    checked = await scene.worker().checked(scene.received(scene.fields(time=NOW - age_s)))
    assert isinstance(checked.error, LateSignature)
    assert f"{abs(age_s)} s {'before' if age_s > 0 else 'after'} it was read" in str(checked.error)
    near = await scene.worker().checked(scene.received(scene.fields(time=NOW - 300)))
    assert near.error is None


async def test_an_old_message_is_late_under_an_old_entry_id_too(scene: Scene) -> None:
    fields = scene.fields(time=NOW - 1000)
    checked = await scene.worker().checked(scene.received(fields, entry_id=f"{int(NOW) - 1000}000-1"))
    assert isinstance(checked.error, LateSignature), "the caller chose that id"


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        ("recall.query.v1", "recall"),
        ("memory.store.v1", "write"),
        ("memory.update.v1", "write"),
        ("memory.delete.v1", "delete"),
        ("recall.feedback.v1", "feedback"),
    ],
)
async def test_a_key_does_what_it_may_and_no_more(tmp_path: Path, kind: str, needs: Right) -> None:
    able = Scene(tmp_path / "able", needs)
    assert (await able.worker(kind).checked(able.received(able.fields(kind)))).error is None
    others: list[Right] = [right for right in ("recall", "write", "delete", "feedback") if right != needs]
    unable = Scene(tmp_path / "unable", *others)
    error = (await unable.worker(kind).checked(unable.received(unable.fields(kind)))).error
    assert isinstance(error, RefusedMessage)
    assert f"and not {needs}" in str(error)


def test_a_key_decides_the_tenant(tmp_path: Path) -> None:
    two = Scene(tmp_path / "two", tenants=("ana", "ben")).caller
    assert [tenant_of(named, two, "default") for named in (None, "ana", "ben")] == ["ana", "ana", "ben"]
    for other in ("default", "*", "ana ", "anna"):
        with pytest.raises(RefusedMessage, match="is not for tenant"):
            tenant_of(other, two, "default")
    every = Scene(tmp_path / "all", tenants=("*",)).caller
    assert [tenant_of(named, every, "default") for named in (None, "ana")] == ["default", "ana"]
    assert tenant_of(None, None, "default") == "default"


def test_the_queue_asks_who_signed_without_using_the_nonce_up(scene: Scene) -> None:
    fields = scene.fields()
    assert scene.worker().caller_of(scene.received(fields).entry) == scene.caller
    assert scene.worker().caller_of(scene.received({b"envelope": MESSAGE_CALLERS}).entry) is None
    assert scene.nonces.kept == {}
