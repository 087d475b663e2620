from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orion_recall.evaluation.snapshots import Contents, Snapshots, snapshot_key
from orion_recall.settings import Settings

CONTENTS = Contents(ids={"c": ["m1", "m2"], "d": ["m1"]}, newest={"c": 5.0})


def stores(folder: Path, data: bytes = b"index") -> Path:
    (folder / "index").mkdir(parents=True)
    (folder / "index" / "page.dat").write_bytes(data)
    return folder


def test_what_is_kept_comes_back_byte_by_byte(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "cache")
    data = os.urandom(100_000) + bytes(1_000_000) + b"end" + bytes(300_000)
    snapshots.keep("k", stores(tmp_path / "a", data), CONTENTS)
    assert snapshots.restore("k", tmp_path / "b") == CONTENTS
    assert (tmp_path / "b" / "index" / "page.dat").read_bytes() == data
    kept = tmp_path / "cache" / "stores" / "k" / "index" / "page.dat"
    assert kept.stat().st_blocks * 512 < len(data) // 2
    assert CONTENTS.count == 3


def test_what_is_not_there_is_not_there(tmp_path: Path) -> None:
    assert Snapshots(tmp_path / "cache").restore("k", tmp_path / "b") is None
    assert not (tmp_path / "b").exists()


def test_a_broken_snapshot_is_forgotten_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.keep("k", stores(tmp_path / "a"), CONTENTS)
    (tmp_path / "stores" / "k" / "contents.json").write_text("{")
    assert snapshots.restore("k", tmp_path / "b") is None
    assert "built anew" in caplog.text
    snapshots.keep("k", tmp_path / "a", CONTENTS)
    assert snapshots.restore("k", tmp_path / "b") == CONTENTS


def test_the_second_of_two_runs_at_once_leaves_what_the_first_has_kept(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.keep("k", stores(tmp_path / "a", b"first"), CONTENTS)
    snapshots.keep("k", stores(tmp_path / "b", b"second"), CONTENTS)
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["k"]
    snapshots.restore("k", tmp_path / "c")
    assert (tmp_path / "c" / "index" / "page.dat").read_bytes() == b"first"


def test_those_used_last_stay(tmp_path: Path) -> None:
    snapshots, a = Snapshots(tmp_path, most=2), stores(tmp_path / "a")
    for place, key in enumerate(("one", "two")):
        snapshots.keep(key, a, CONTENTS)
        os.utime(tmp_path / "stores" / key, (1000 + place, 1000 + place))
    assert snapshots.restore("one", tmp_path / "b") is not None
    snapshots.keep("three", a, CONTENTS)
    assert {path.name for path in (tmp_path / "stores").iterdir()} == {"one", "three"}


def test_large_ones_make_room_but_for_the_last(tmp_path: Path) -> None:
    snapshots, a = Snapshots(tmp_path, most_bytes=50_000), stores(tmp_path / "a", os.urandom(200_000))
    snapshots.keep("one", a, CONTENTS)
    os.utime(tmp_path / "stores" / "one", (1000, 1000))
    assert snapshots.restore("one", tmp_path / "b") is not None
    os.utime(tmp_path / "stores" / "one", (1000, 1000))
    snapshots.keep("two", a, CONTENTS)
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["two"]


def test_what_a_killed_run_left_goes_once_it_is_old(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    for name, age in ((".part-old-1", 7200), (".part-new-2", 0)):
        folder = tmp_path / "stores" / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age, time.time() - age))
    snapshots.keep("k", stores(tmp_path / "a"), CONTENTS)
    assert {path.name for path in (tmp_path / "stores").iterdir()} == {"k", ".part-new-2"}


def test_where_nothing_can_be_kept_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    Snapshots(tmp_path / "file").keep("k", stores(tmp_path / "a"), CONTENTS)
    assert "not kept" in caplog.text


def test_the_key_is_of_the_memories_and_the_model(tmp_path: Path) -> None:
    file, same = tmp_path / "m", tmp_path / "elsewhere"
    for path in (file, same):
        path.write_text("one")
    settings = Settings.read()
    key = snapshot_key(file, settings)
    assert snapshot_key(same, settings.changed(data_dir=tmp_path, log_level="error")) == key
    assert snapshot_key(file, settings.changed(model_path=tmp_path)) != key
    file.write_text("two")
    assert snapshot_key(file, settings) != key
