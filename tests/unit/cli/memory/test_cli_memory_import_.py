"""`orion-recall import -`: lines of standard input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from orion_recall.cli.memory.import_ import lines_of
from orion_recall.errors import ImportFileError


class Standard(io.TextIOWrapper):
    """Standard input that is a terminal, or not."""

    def __init__(self, content: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content))
        self._terminal = terminal

    def isatty(self) -> bool:
        """What it was made as."""
        return self._terminal


def test_standard_input_is_a_file_that_can_be_read_twice_and_is_gone_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Standard(b'{"id": "a"}\nno\xffline\n'))
    with lines_of(Path("-")) as path:
        assert [path.read_bytes() for _ in range(2)] == [b'{"id": "a"}\nno\xffline\n'] * 2
    assert not path.exists()


def test_a_file_is_itself(tmp_path: Path) -> None:
    with lines_of(tmp_path / "m.jsonl") as path:
        assert path == tmp_path / "m.jsonl"


def test_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Standard(b"", terminal=True))
    with pytest.raises(ImportFileError, match="pipe lines into it"), lines_of(Path("-")):
        pass
