"""Signals of running commands, and the first line of one worker or of several."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from orion_recall.cli.serving.up import ready_of_all, say_ready
from orion_recall.cli.signals import StopSignals, interrupted_once, stop_signals


def worker(number: int, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ready": True, "instance": f"w{number}", "bus_url": "redis://bus", "postgres_dsn": None,
        "data_dir": f"/d/{number}", "pid": 1_000_000 + number, "index_position": 10 * number, "graph_position": 7,
        "profiles": ["reflect.v1"], "broken": {}, "health_url": f"http://h:{number}",
    }  # fmt: skip
    return told | changes


@pytest.mark.parametrize(
    ("at_terminal", "is_there", "expected"),
    [(False, False, "reload"), (True, True, "reload"), (True, False, "stop")],
)
async def test_a_hang_up_reads_the_profiles_again_and_stops_what_lost_its_terminal(
    monkeypatch: pytest.MonkeyPatch, expected: str, *, at_terminal: bool, is_there: bool
) -> None:
    def isatty(_: int) -> bool:
        return is_there

    monkeypatch.setattr("os.isatty", isatty)
    done: list[str] = []
    task: asyncio.Task[object] = asyncio.create_task(asyncio.Event().wait())
    signals = StopSignals(task, at_terminal=at_terminal)
    signals.gently, signals.reload = lambda: done.append("stop"), lambda: done.append("reload")
    signals.hang_up()
    assert done == [expected]
    task.cancel()


async def test_a_hang_up_before_anything_is_served_changes_nothing() -> None:
    async def starting() -> str:
        with stop_signals() as signals:
            signals.at_terminal = False
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            return "started"

    assert await asyncio.create_task(starting()) == "started"


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_the_block_and_others_do_not_disturb_its_cleaning_up(first: signal.Signals) -> None:
    done: list[str] = []

    async def command() -> None:
        with interrupted_once():
            try:
                os.kill(os.getpid(), first)
                await asyncio.Event().wait()
            finally:
                for other in (signal.SIGINT, signal.SIGTERM):
                    os.kill(os.getpid(), other)
                    await asyncio.sleep(0)  # the loop hears of it
                    await asyncio.to_thread(done.append, "cleaned up")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(command())
    assert done == ["cleaned up"] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_all_workers_have_one_line_and_each_has_its_own_part(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ready_of_all([worker(2), worker(1, graph_position=None, broken={"graph": "another record's"})])
    assert (told["ready"], told["bus_url"], told["data_dir"]) == (True, "redis://bus", "/d/2")
    assert told["pid"] == os.getpid()
    assert (told["index_position"], told["graph_position"]) == (10, 7)
    assert told["broken"] == {"w1 graph": "another record's"}
    assert "instance" not in told
    assert [(one["instance"], one["pid"]) for one in told["workers"]] == [("w2", 1_000_002), ("w1", 1_000_001)]
    assert ready_of_all([worker(1, index_position=None)])["index_position"] is None
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    say_ready("2 workers take queries", told, "Ctrl-C")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0], lines[-1]) == ("2 workers take queries", "Ctrl-C")
    assert any(line.startswith("w2 1000002 /d/2") for line in lines)
