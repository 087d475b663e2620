from __future__ import annotations

import asyncio
import os
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import against, bench
from tests.bench.command import engines_folder, finish
from tests.bench.peers import __main__ as peers
from tests.chaos import __main__ as chaos


@pytest.mark.parametrize(
    ("read", "arguments"),
    [
        (bench.read_options, ["--sizes", "many,1000"]),
        (bench.read_options, ["--seconds-per-cell", "0"]),
        (against.read_options, ["HEAD", "--processes", "0"]),
        (peers.read_options, ["--only", "nobody"]),
        (chaos.read_options, ["no-such-trial"]),
    ],
)
def test_what_cannot_be_measured_is_an_error_of_the_command_line(
    read: Callable[[list[str]], Namespace], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read(arguments)
    assert "error:" in capsys.readouterr().err


def test_a_command_that_is_terminated_closes_what_it_has_opened_and_leaves_no_folder() -> None:
    closed: list[Path] = []

    async def measuring(folder: Path) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(30)
        finally:
            closed.append(folder)
        return 7

    with pytest.raises(asyncio.CancelledError), engines_folder() as folder:
        finish(measuring(folder), show=lambda found, out: out.print(found), as_json=lambda _: {}, file=None)
    assert not closed[0].exists()
