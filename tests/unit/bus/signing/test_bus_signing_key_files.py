"""Files of keys: who may read them, what they may hold, and that they are read again."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orion_recall.bus.signing.keys import Caller, Key, KeyRing, read_key, read_ring, written_caller, written_key
from orion_recall.errors import SettingsError

SECRET = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" * 2


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def caller(name: str, *tenants: str, until: datetime | None = None) -> Caller:
    key = Key(id=name, secret=os.urandom(32))
    return Caller(key=key, tenants=tenants or ("ana",), may=frozenset(("recall", "write")), until=until)


def test_what_is_written_is_read_back(tmp_path: Path):
    first = caller("one", "ana", 'a "quoted"\\ tenant\n')
    second = caller("two", "*", until=datetime(2027, 1, 31, tzinfo=UTC))
    ring = written(tmp_path / "ring", written_caller(first) + written_caller(second))
    assert read_ring(ring) == {"one": first, "two": second}
    assert read_key(written(tmp_path / "key", written_key(first.key))) == first.key


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o606])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int):
    for read, text in ((read_ring, written_caller(caller("one"))), (read_key, written_key(caller("one").key))):
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
        (f'id = "one"\nsecret = "{SECRET}"\n', "a key ring is a list of"),
        (key_lines(id='"a b"'), "id: write up to 64"),
        (key_lines(id=None), "id: write up to 64"),
        (key_lines(secret='"c2hvcnQ="'), "32 random bytes"),
        (key_lines(secret='"not base64 at all, but long enough to be so"'), "32 random bytes"),
        (key_lines(tenants="[]"), "list one at least"),
        (key_lines(tenants='"ana"'), "list one at least"),
        (key_lines(may='["recall", "rule"]'), "list some of recall, write, delete, feedback"),
        (key_lines(may=None), "list some of"),
        (key_lines(until='"tomorrow"'), "a time with a zone"),
        (key_lines(until="2027-01-31T00:00:00"), "a time with a zone"),
        (key_lines(tenant='"ana"'), "unknown tenant"),
        (key_lines() + key_lines(), "two keys have the id 'one'"),
    ],
)
def test_a_ring_that_says_something_else_is_refused_and_no_secret_is_quoted(tmp_path: Path, text: str, why: str):
    with pytest.raises(SettingsError, match=why) as refused:
        read_ring(written(tmp_path / "ring", text))
    assert "c2VjcmV0" not in str(refused.value)
    assert str(tmp_path / "ring") in str(refused.value)


def test_a_ring_follows_its_file(tmp_path: Path):
    old, new = caller("old"), caller("new")
    path = written(tmp_path / "ring", written_caller(old))
    ring = KeyRing(path)
    assert (ring.caller("old"), ring.caller("new")) == (old, None)
    written(path, written_caller(old) + written_caller(new))
    assert (ring.caller("old"), ring.caller("new")) == (old, new)
    replaced = written(tmp_path / "next", written_caller(new))
    replaced.replace(path)
    assert (ring.caller("old"), ring.caller("new")) == (None, new)


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
