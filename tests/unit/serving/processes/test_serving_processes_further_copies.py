"""Folders of further workers: copied from the first one's, kept, replaced, deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.engines.lock import FolderLock
from orion_recall.index.metadata import FORMAT, IndexMetadata
from orion_recall.serving.processes.further_copies import delete_surplus, make_further_copies
from orion_recall.settings import Settings

METADATA = IndexMetadata(format=FORMAT, model="m", dimension=3, weights_sha256="w", position=7, record="town")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.read(data_dir=tmp_path, min_free_bytes=0)


def fill(folder: Path, text: str = "points", **changes: object) -> None:
    """An index and a graph, as far as their files matter here."""
    (folder / "index" / "shard").mkdir(parents=True)
    (folder / "graph" / "store").mkdir(parents=True)
    (folder / "index" / "shard" / "segment").write_text(text)
    (folder / "graph" / "store" / "sst").write_text(text)
    (folder / "index" / "index.json").write_text(json.dumps({**METADATA.values(), **changes}))


def held(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_index_and_graph_are_copied_and_nothing_else(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "postgres").mkdir()
    (tmp_path / "index" / "builds" / "other").mkdir(parents=True)
    (tmp_path / "index" / "builds" / "other" / "index.json").write_text("{}")
    (tmp_path / "keyword-lengths.json").write_text("{}")
    second, third = tmp_path / "workers" / "2", tmp_path / "workers" / "3"
    assert make_further_copies(settings, 3) == [
        place / kind for place in (second, third) for kind in ("index", "graph")
    ]
    files = {"index/index.json", "index/shard/segment", "graph/store/sst", "keyword-lengths.json"}
    assert held(second) == held(third) == files
    assert make_further_copies(settings, 3) == [], "they are there"


def test_of_a_build_in_use_the_build_is_copied(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path)
    build = tmp_path / "index" / "builds" / "optimised"
    build.mkdir(parents=True)
    for name in ("index.json", "shard"):
        (tmp_path / "index" / name).rename(build / name)
    (tmp_path / "index" / "current").write_text("optimised\n")
    make_further_copies(settings, 2)
    assert held(tmp_path / "workers" / "2") == {"index/index.json", "index/shard/segment", "graph/store/sst"}


@pytest.mark.parametrize("difference", [{"record": "another town"}, {"model": "n"}, {"tokens": "t"}])
def test_one_by_another_model_or_of_another_record_is_replaced(
    settings: Settings, tmp_path: Path, difference: dict[str, str]
) -> None:
    fill(tmp_path)
    fill(tmp_path / "workers" / "2", "old", **difference)
    assert len(make_further_copies(settings, 2)) == 2
    assert (tmp_path / "workers" / "2" / "graph" / "store" / "sst").read_text() == "points"


def test_what_a_copy_that_was_cut_short_has_left_is_replaced(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path)
    left = tmp_path / "workers" / "2" / "index.part" / "shard"
    left.mkdir(parents=True)
    (left / "half").touch()
    (tmp_path / "workers" / "2" / "index").mkdir()
    (tmp_path / "workers" / "2" / "index" / "index.json").write_text("old")
    make_further_copies(settings, 2)
    assert held(tmp_path / "workers" / "2") == {"index/index.json", "index/shard/segment", "graph/store/sst"}
    assert json.loads((tmp_path / "workers" / "2" / "index" / "index.json").read_text())["position"] == 7


def test_a_folder_that_is_open_is_not_copied(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    with FolderLock.acquire(tmp_path / "index", "the index", "or wait"):
        made = make_further_copies(settings, 2)
    assert made == [tmp_path / "workers" / "2" / "graph"]
    assert "is filled from the record: it cannot be copied" in caplog.text


def test_copies_of_workers_that_are_wanted_no_more_are_deleted(settings: Settings, tmp_path: Path) -> None:
    for number in (2, 3, 4):
        fill(tmp_path / "workers" / str(number))
    assert delete_surplus(settings, 2) == [3, 4]
    assert held(tmp_path / "workers" / "2") != set()
    assert held(tmp_path / "workers" / "3") == held(tmp_path / "workers" / "4") == set()
    assert delete_surplus(settings, 2) == [3, 4], "until they are unregistered"


def test_one_that_somebody_has_open_stays(settings: Settings, tmp_path: Path) -> None:
    fill(tmp_path / "workers" / "2")
    with FolderLock.acquire(tmp_path / "workers" / "2" / "graph", "the graph", "or wait"):
        assert delete_surplus(settings, 1) == []
    assert "graph/store/sst" in held(tmp_path / "workers" / "2")
