"""Who may send what: age, replay, rights and tenants of signed messages."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orion_recall.bus.envelope import Received, decode
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers, tenant_of
from orion_recall.bus.signing.keys import Caller, Key, KeyRing, Right, sign, written_caller
from orion_recall.errors import LateSignature, RefusedMessage

NOW = 1_700_000_000.0
MESSAGE = b'{"correlation_id": "c-1", "reply_to": "recall.reply.v1:me", "payload": {"fragment": "What?"}}'


class NoncesHere:
    """Nonces as the bus keeps them, which never expire."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def first_of(self, name: str, entry: str, *, keep_ms: int) -> str:
        return self.kept.setdefault(name, entry)

    async def held_by(self, name: str) -> str | None:
        return self.kept.get(name)


class Scene:
    """Workers that share a ring and nonces. It is NOW on the bus."""

    def __init__(self, path: Path, *may: Right, tenants: tuple[str, ...] = ("ana",), over: bool = False) -> None:
        self.key, self.nonces, self.now = Key(id="one", secret=os.urandom(32)), NoncesHere(), NOW
        until = datetime.fromtimestamp(NOW if over else NOW + 1000, UTC)
        self.caller = Caller(key=self.key, tenants=tenants, may=frozenset(may or ("recall",)), until=until)
        path.write_text(written_caller(self.caller), encoding="utf-8")
        path.chmod(0o600)
        self.ring, self.count = KeyRing(path), 0

    def worker(self, kind: str = "recall.query.v1") -> Callers:
        return Callers(self.ring, self.nonces, stream=f"p:{kind}", kind=kind, within_s=300, now=lambda: self.now)

    def fields(self, kind: str = "recall.query.v1", *, time: float = NOW) -> dict[bytes, bytes]:
        return {b"envelope": MESSAGE, b"signature": sign(self.key, MESSAGE, stream=f"p:{kind}", time=time)}

    def received(self, fields: dict[bytes, bytes], *, deliveries: int = 1, entry_id: str | None = None) -> Received:
        self.count += 1
        entry = Entry(id=entry_id or f"{int(NOW)}000-{self.count}", fields=fields, deliveries=deliveries)
        return decode(entry, kind="recall.query.v1", max_bytes=100_000)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "ring")


async def test_a_signed_message_has_a_caller_and_is_otherwise_as_it_was(scene: Scene) -> None:
    received = scene.received(scene.fields())
    checked = await scene.worker().checked(received)
    assert (checked.caller, checked.error, checked.payload) == (scene.caller, None, {"fragment": "What?"})


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
        fields[b"envelope"] = MESSAGE.replace(b"What", b"Whom")
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


async def test_a_key_that_is_over_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "ring", over=True)
    error = (await scene.worker().checked(scene.received(scene.fields()))).error
    assert "sign with its successor" in str(error)


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
    assert scene.worker().caller_of(scene.received({b"envelope": MESSAGE}).entry) is None
    assert scene.nonces.kept == {}
