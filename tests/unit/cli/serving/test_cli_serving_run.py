from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.cli.serving.run import StopSignals, say_ready, stop_signals


class Told:
    """Signals of a task that runs on, with what they led to."""

    def __init__(self, *, at_terminal: bool) -> None:
        self.done: list[str] = []
        self.task: asyncio.Task[object] = asyncio.create_task(asyncio.sleep(60))
        self.signals = StopSignals(self.task, at_terminal=at_terminal)
        self.signals.gently = lambda: self.done.append("stop")
        self.signals.reload = lambda: self.done.append("reload")


async def test_a_hang_up_reads_the_profiles_again_and_stops_what_lost_its_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for at_terminal, is_there, expected in (
        (False, False, "reload"),
        (True, True, "reload"),
        (True, False, "stop"),
    ):
        monkeypatch.setattr("os.isatty", lambda _, is_there=is_there: is_there)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        told = Told(at_terminal=at_terminal)
        told.signals.hang_up()
        assert told.done == [expected]
        told.task.cancel()


async def test_a_hang_up_before_anything_is_served_changes_nothing() -> None:
    async def starting() -> str:
        with stop_signals() as signals:
            signals.at_terminal = False
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)
            return "started"

    assert await asyncio.create_task(starting()) == "started"


def test_people_are_told_the_process_and_the_health_port_of_each_of_several_workers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    workers = [
        {"pid": 7, "instance": "host-7", "health_url": "http://127.0.0.1:9100"},
        {"pid": 8, "instance": "host-8", "health_url": None},
    ]
    common: dict[str, Any] = {
        "bus_url": "redis://bus",
        "postgres_dsn": None,
        "data_dir": "/d",
        "profiles": ["reflect.v1"],
    }
    ready: dict[str, Any] = {
        **common,
        "index_position": 3,
        "graph_position": 2,
        "broken": {},
        "health_url": None,
        "workers": workers,
    }
    say_ready("2 workers take queries", ready)
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "worker 1 process 7, host-7, http://127.0.0.1:9100" in told
    assert "worker 2 process 8, host-8" in told


@pytest.mark.parametrize("command", ["up", "worker"])
def test_the_extractor_can_be_chosen_on_the_command_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("ORION_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("ORION_DATA_DIR", str(tmp_path / "data"))  # `up` starts its engines before it looks
    monkeypatch.delenv("ORION_LLM_URL", raising=False)
    assert run([command, "--extractor", "llm"]) == 2
    assert "ORION_LLM_URL is not set, and ORION_EXTRACTOR=llm needs it" in capsys.readouterr().err
    assert run([command, "--extractor", "gguf"]) == 2
    assert "'light', 'spacy', 'llm'" in capsys.readouterr().err
