from __future__ import annotations

import asyncio
import json
import os
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import against, bench, imports
from tests.bench.command import engines_folder, finish
from tests.bench.peers import __main__ as peers
from tests.bench.scale import __main__ as scale
from tests.chaos import __main__ as chaos

Read = Callable[[list[str]], Namespace]


def test_every_command_has_its_defaults_and_takes_a_file_for_json() -> None:
    assert bench.read_options(["--json", "x.json"]).sizes == [1000, 10_000]
    assert bench.read_options(["--sizes", "10000,100,10000"]).sizes == [100, 10_000]
    read = imports.read_options(["--rounds", "7", "--json", "x.json"])
    assert (read.sizes, read.rounds, read.json) == ([1000, 5000, 10_000], 7, Path("x.json"))
    assert scale.read_options([]).keep is None
    assert peers.read_options(["--only", "mem0", "--only", "qdrant"]).only == ["mem0", "qdrant"]


@pytest.mark.parametrize(
    ("read", "arguments"),
    [
        (imports.read_options, ["--sizes", "5"]),
        (imports.read_options, ["--sizes", "1000"]),
        (imports.read_options, ["--sizes", "many,1000"]),
        (bench.read_options, ["--rounds", "0"]),
        (bench.read_options, ["--seconds-per-cell", "0"]),
        (against.read_options, ["HEAD", "--processes", "0"]),
        (peers.read_options, ["--size", "10"]),
        (peers.read_options, ["--only", "nobody"]),
        (chaos.read_options, ["no-such-trial"]),
    ],
)
def test_what_cannot_be_measured_is_an_error_of_the_command_line(
    read: Read, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(arguments)

    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_folder_of_engines_is_gone_after_the_block_whatever_happens() -> None:
    seen: list[Path] = []

    with pytest.raises(KeyError), engines_folder() as folder:
        seen.append(folder)
        (folder / "data").mkdir()
        raise KeyError("something")

    assert not seen[0].exists()


def test_what_was_measured_is_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def measuring() -> int:
        return 7

    file = tmp_path / "found.json"

    finish(measuring(), show=lambda found, out: out.print(found), as_json=lambda found: {"found": found}, file=file)

    assert capsys.readouterr().out.strip() == "7"
    assert json.loads(file.read_text("utf-8")) == {"found": 7}


def test_a_command_that_is_terminated_closes_what_it_has_opened() -> None:
    closed: list[bool] = []

    async def measuring() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(30)
        finally:
            closed.append(True)
        return 7

    with pytest.raises(asyncio.CancelledError):
        finish(measuring(), show=lambda found, out: out.print(found), as_json=lambda found: {}, file=None)

    assert closed == [True]
