from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from orion_recall.atomic_file import whole_text


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path):
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    with whole_text(target) as lines:
        lines.write("one\nzwö\r\n")
        lines.flush()
        assert target.read_text() == "before"
    assert target.read_bytes() == "one\nzwö\r\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_what_ends_badly_leaves_what_was_there_and_nothing_else(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")
    for target in (old, new):
        with pytest.raises(KeyboardInterrupt), whole_text(target) as lines:
            lines.write("half")
            raise KeyboardInterrupt
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("old", "before")]


def test_what_is_no_file_is_written_as_it_comes_and_stays(tmp_path: Path):
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with whole_text(pipe) as lines:
        lines.write("told\n")
    reader.join(30)
    assert read == [b"told\n"]
    assert pipe.is_fifo()
