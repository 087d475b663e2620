"""`orion-recall keys`: what it writes, who can read it, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.bus.signing.keys import read_key, read_ring
from orion_recall.cli.main import run


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ring.toml"
    monkeypatch.setenv("ORION_KEYS_FILE", str(path))
    return path


def test_a_new_key_is_in_the_ring_and_in_a_file_and_its_owner_alone_reads_both(tmp_path: Path, ring: Path) -> None:
    out = tmp_path / "ana.key"
    assert run(["keys", "new", "ana-1", "--tenant", "ana", "--tenant", "ben", "--out", str(out)]) == 0
    assert (
        run(["keys", "new", "reader", "--tenant", "*", "--may", "recall", "--days", "30", "--out", f"{out}2"]) == 0
    )
    callers = read_ring(ring)
    assert read_key(out) == callers["ana-1"].key
    assert callers["ana-1"].tenants == ("ana", "ben")
    assert callers["ana-1"].may == {"recall", "write", "delete", "feedback"}
    assert (callers["reader"].may, callers["reader"].until is None) == ({"recall"}, False)
    assert [path.stat().st_mode & 0o777 for path in (ring, out)] == [0o600, 0o600]


def test_the_list_shows_no_secret(tmp_path: Path, ring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["keys", "new", "ana-1", "--tenant", "ana", "--out", str(tmp_path / "ana.key")])
    secret = ring.read_text().split('secret = "')[1].split('"')[0]
    assert run(["keys", "list"]) == 0
    assert run(["keys", "list", "--json"]) == 0
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


def test_without_a_ring_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("ORION_KEYS_FILE")
    assert run(["keys", "list"]) == 2
    assert "set ORION_KEYS_FILE, or name it with --ring" in capsys.readouterr().err


@pytest.mark.parametrize("tenant", ["", "\udcff"])
def test_a_key_that_workers_could_not_read_gets_into_no_ring(tenant: str, tmp_path: Path, ring: Path) -> None:
    good, bad = tmp_path / "good.key", tmp_path / "bad.key"
    assert run(["keys", "new", "good", "--tenant", "ana", "--out", str(good)]) == 0
    before = ring.read_bytes()
    assert run(["keys", "new", "bad", "--tenant", tenant, "--out", str(bad)]) == 2
    assert (ring.read_bytes(), bad.exists()) == (before, False)


def test_a_ring_whose_folder_is_not_there_leaves_no_file_behind(tmp_path: Path) -> None:
    out = tmp_path / "ana.key"
    where = tmp_path / "nowhere" / "ring"
    assert run(["keys", "new", "a", "--tenant", "ana", "--out", str(out), "--ring", str(where)]) == 2
    assert not out.exists()
