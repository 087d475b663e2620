"""`orion-recall keys`, `settings` and `migrate`: what they write and show, and never a secret."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orion_recall.bus.signing.keys import read_key, read_ring
from orion_recall.cli.main import run
from orion_recall.settings import Settings


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a key ring; no other setting of this machine is seen."""
    for name in [name for name in os.environ if name.startswith("ORION_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "ring.toml"
    monkeypatch.setenv("ORION_KEYS_FILE", str(path))
    return path


def test_a_new_key_is_in_the_ring_and_in_a_file_and_its_owner_alone_reads_both(tmp_path: Path, ring: Path) -> None:
    out = tmp_path / "ana.key"
    assert run(["keys", "new", "ana-1", "--tenant", "ana", "--tenant", "ben", "--out", str(out)]) == 0
    further = ["keys", "new", "reader", "--tenant", "*", "--may", "recall", "--days", "30", "--out", f"{out}2"]
    assert run(further) == 0
    callers = read_ring(ring)
    assert read_key(out).secret == callers["ana-1"].secret
    assert callers["ana-1"].tenants == ("ana", "ben")
    assert callers["ana-1"].may == {"recall", "write", "delete", "feedback"}
    assert (callers["reader"].may, callers["reader"].until is None) == ({"recall"}, False)
    assert [path.stat().st_mode & 0o777 for path in (ring, out)] == [0o600, 0o600]


def test_the_list_shows_no_secret(tmp_path: Path, ring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["keys", "new", "ana-1", "--tenant", "ana", "--out", str(tmp_path / "ana.key")])
    secret = ring.read_text().split('secret = "')[1].split('"')[0]
    assert run(["keys", "list"]) == run(["keys", "list", "--json"]) == 0
    printed = capsys.readouterr()
    assert secret not in printed.out + printed.err
    (listed,) = json.loads(printed.out[printed.out.index("{") :])["keys"]
    assert (listed["id"], listed["tenants"], listed["is_over"]) == ("ana-1", ["ana"], False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["new", "ana-1", "--tenant", "b", "--out", "NEW"], "has a key 'ana-1'"),
        (["new", "a b", "--tenant", "b", "--out", "NEW"], "write up to 64 letters"),
        (["new", "two", "--tenant", "b", "--out", "OLD"], "is there already"),
        (["new", "two", "--tenant", "b", "--may", "rule", "--out", "NEW"], "--may: name some of"),
        (["new", "two", "--tenant", "", "--out", "NEW"], ""),
        (["new", "two", "--tenant", "\udcff", "--out", "NEW"], ""),
        (["new", "two", "--tenant", "b", "--out", "NEW", "--ring", "nowhere/ring"], "there is no folder"),
    ],
)
def test_what_would_overwrite_or_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path, ring: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    names = {"OLD": str(tmp_path / "old.key"), "NEW": str(tmp_path / "new.key")}
    run(["keys", "new", "ana-1", "--tenant", "ana", "--out", names["OLD"]])
    before = ring.read_text()
    assert run(["keys", *(names.get(one, one) for one in arguments)]) == 2
    assert why in capsys.readouterr().err
    assert (ring.read_text(), (tmp_path / "new.key").exists()) == (before, False)


def test_settings_say_what_is_set_and_never_to_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ORION_KEYS_FILE")
    monkeypatch.setenv("ORION_REDIS_URL", "redis://worker:opensesame@bus")
    monkeypatch.setenv("ORION_TENANT", "acme")
    assert run(["settings", "--json"]) == 0
    printed = capsys.readouterr().out
    listed = json.loads(printed)
    assert [row["variable"] for row in listed["settings"] if row["is_set"]] == ["ORION_REDIS_URL"]
    assert len(listed["settings"]) == len(Settings.model_fields)
    assert run(["settings"]) == 0
    shown = capsys.readouterr()
    assert "opensesame" not in printed + shown.out
    assert "nothing reads ORION_TENANT" in shown.err


def test_migrate_names_a_missing_address_and_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["migrate", "--json"]) == 2
    assert "ORION_POSTGRES_DSN" in json.loads(capsys.readouterr().out)["error"]["message"]
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://orion_owner:opensesame@127.0.0.1:1/orion")
    assert run(["migrate"]) == 1
    printed = capsys.readouterr()
    assert "cannot be reached" in printed.err
    assert "opensesame" not in printed.out + printed.err
