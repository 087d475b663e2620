from __future__ import annotations

import os
from pathlib import Path

import pytest

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer.import_file import ImportPosition, ImportProgress
from orion_recall.memory.transfer.import_mapping import ImportMapping, read_mapping

BUS = "redis://:secret@bus/0"
PLAIN = ImportMapping()
START = ImportPosition()
THERE = ImportPosition(offset=5, line=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "memories.jsonl"
    file.write_text("0123456789")
    return file


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "imports"


def test_an_import_goes_on_where_it_was_acknowledged(source: Path, state: Path) -> None:
    progress = ImportProgress.open(state, source, PLAIN, BUS)
    assert progress.position == START
    progress.acknowledge(THERE)
    assert progress.position == THERE
    assert ImportProgress.open(state, source, PLAIN, BUS).position == THERE


def test_another_mapping_or_bus_or_a_changed_file_begins_anew(source: Path, state: Path) -> None:
    ImportProgress.open(state, source, PLAIN, BUS).acknowledge(THERE)
    assert ImportProgress.open(state, source, read_mapping("id=key"), BUS).position == START
    assert ImportProgress.open(state, source, read_mapping(timezone="UTC"), BUS).position == START
    assert ImportProgress.open(state, source, PLAIN, "redis://other").position == START
    os.utime(source, ns=(1, 1))
    assert ImportProgress.open(state, source, PLAIN, BUS).position == START


def test_a_finished_import_is_forgotten(source: Path, state: Path) -> None:
    progress = ImportProgress.open(state, source, PLAIN, BUS)
    progress.acknowledge(THERE)
    progress.finish()
    progress.finish()
    assert ImportProgress.open(state, source, PLAIN, BUS).position == START
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"offset": "x"}', '{"offset": 99, "line": 1}'])
def test_progress_that_makes_no_sense_begins_anew(source: Path, state: Path, content: str) -> None:
    ImportProgress.open(state, source, PLAIN, BUS).acknowledge(THERE)
    [file] = state.iterdir()
    file.write_text(content)
    assert ImportProgress.open(state, source, PLAIN, BUS).position == START


def test_the_address_of_the_bus_is_not_written_down(source: Path, state: Path) -> None:
    ImportProgress.open(state, source, PLAIN, BUS).acknowledge(THERE)
    [file] = state.iterdir()
    assert "secret" not in file.read_text() + file.name


def test_a_folder_that_cannot_be_written_is_an_import_error(source: Path) -> None:
    progress = ImportProgress.open(source / "below-a-file", source, PLAIN, BUS)
    with pytest.raises(ImportFileError, match="cannot keep the progress"):
        progress.acknowledge(THERE)
    assert progress.position == START
