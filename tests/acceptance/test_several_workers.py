"""Several workers of one command: both answer, one that dies is replaced, none outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import MEMORIES, WITH_SERVERS
from tests.acceptance.program import Program, processes_on

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def is_there(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(predicate: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 90
    while not predicate():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.05)


def answering(program: Program, pids: set[int]) -> bool:
    """Whether each of these processes has answered one of the queries that this asks."""
    for _ in range(4):
        assert program.run("ask", "where does crate number 7 stand?", "--json").code == 0
    told = program.run("decisions", "sql", "SELECT DISTINCT worker FROM recall_decisions", "--json").json
    return pids <= {int(row[0].rpartition("-")[2]) for row in told["rows"]}


def copies(program: Program) -> dict[str, int]:
    """The registered copies of the index by their folder, with their position."""
    told = program.run("status", "--json").json["postgres"]["copies"]
    return {one["copy"].partition(":")[2]: one["position"] for one in told if one["kind"] == "index"}


@pytest.mark.skipif(WITH_SERVERS, reason="it is of embedded copies")
def test_several_workers_share_the_queries_and_are_replaced_and_stopped(program: Program) -> None:
    file = program.folder / "memories.jsonl"
    file.write_text("".join(f"{json.dumps(memory)}\n" for memory in MEMORIES))
    second, third = program.data / "workers" / "2", program.data / "workers" / "3"

    with program.started("up", "--workers", "2", "--json") as running:
        ready = running.ready()
        first_pid, second_pid = (worker["pid"] for worker in ready["workers"])
        assert ready["pid"] == running.process.pid
        assert [worker["data_dir"] for worker in ready["workers"]] == [str(program.data), str(second)]
        assert program.run("import", str(file)).code == 0
        until(lambda: answering(program, {first_pid, second_pid}), "a decision by each")
        connections = program.run("decisions", "sql", "SHOW max_connections", "--json").json["rows"]
        assert connections == [["56"]], "the embedded Postgres has 16 more for a further worker"

        os.kill(second_pid, signal.SIGKILL)
        running.wait_until(lambda: "worker 2 takes queries again" in running.err, "another worker")
        assert is_there(first_pid)
        assert f"worker 2 died and is started again within 0.2 s: process {second_pid}" in running.err
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert processes_on(program.folder) == []

    with program.started("up", "--workers", "3", "--json") as running:
        workers: list[dict[str, Any]] = running.ready()["workers"]
        # Its index is a copy: it has embedded nothing.
        assert workers[2]["index_position"] == workers[0]["index_position"] >= len(MEMORIES)
        until(lambda: copies(program).keys() == {str(program.data), str(second), str(third)}, "the copies")
        running.process.kill()
        running.process.wait()
    until(lambda: not any(is_there(worker["pid"]) for worker in workers), "the end of all")

    with program.started("up", "--json") as running:
        assert "workers" not in running.ready()
        until(lambda: copies(program).keys() == {str(program.data)}, "one copy")
        assert not (second / "index").exists()
        running.signal(signal.SIGTERM)
        assert running.end().code == 0


def test_a_worker_that_cannot_start_ends_the_command_with_its_reason(program: Program) -> None:
    (program.data / "workers").mkdir(parents=True)
    (program.data / "workers" / "2").write_text("not a folder")
    ended = program.run("up", "--workers", "2", "--json")
    assert ended.code == 2, ended.err
    assert "worker 2 did not start (ended with code 2)" in ended.json["error"]["message"]
    assert processes_on(program.folder) == []


@pytest.mark.parametrize("line", [("up", "--workers", "0"), ("worker", "--processes", "65")])
def test_a_number_of_workers_has_bounds(program: Program, line: tuple[str, ...]) -> None:
    ended = program.run(*line)
    assert ended.code == 2
    assert "Input should be" in ended.err
