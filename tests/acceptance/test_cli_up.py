"""`orion-recall up` and `worker`: one line when ready, one owner for a folder, a clean end."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import WITH_SERVERS
from tests.acceptance.program import Program, processes_on

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_where_it_is_and_ends_cleanly_on_a_signal(program: Program, number: signal.Signals) -> None:
    started = program.from_scratch() if number == signal.SIGINT else program
    with started.started("up", "--json") as running:
        running.wait_until(lambda: (program.data / ".lock").exists(), "its folder")
        early = program.run("ask", "is anybody there?", "--timeout", "60")
        assert early.code == 0, early.err
        ready = running.ready()
        assert ready["bus_url"].startswith("unix://")
        assert ready["postgres_dsn"].startswith("postgresql://")
        assert ready["data_dir"] == str(program.data)
        assert ready["pid"] == running.process.pid
        assert ready["index_position"] == ready["graph_position"] == 0
        answer = program.run("ask", "is anybody there?")
        assert answer.code == 0, answer.err
        assert "nothing was found" in answer.err
        running.signal(number)
        ended = running.end()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert processes_on(program.folder) == []


def test_a_signal_while_up_is_starting_stops_what_has_started(program: Program) -> None:
    with program.started("up") as running:
        running.wait_until(lambda: (program.data / "engines.json").exists(), "its engines")
        running.signal(signal.SIGTERM)
        ended = running.end()
    assert ended.code == 0, ended.err
    assert ended.out == ""
    assert processes_on(program.folder) == []


def test_a_second_up_on_a_folder_names_the_first_one(up: Up) -> None:
    again = up.program.run("up", "--json")
    assert again.code == 2
    assert f"used by process {up.ready['pid']}" in again.json["error"]["message"]
    assert again.err.startswith("error: ")
    assert up.program.run("ask", "crane").code == 0


def test_a_worker_takes_its_addresses_from_the_environment_and_ends_on_sigterm(program: Program) -> None:
    with program.started("up", "--json") as first:
        ready = first.ready()
        folder = program.folder / "worker"
        addresses = {"ORION_REDIS_URL": ready["bus_url"], "ORION_POSTGRES_DSN": ready["postgres_dsn"]}
        second = program.with_settings(**addresses, ORION_DATA_DIR=str(folder), ORION_INSTANCE="second")
        with second.started("worker", "--json") as running:
            said = running.ready()
            assert (said["instance"], said["data_dir"]) == ("second", str(folder))

            def is_consumer() -> bool:  # with its first look for messages, soon after it is ready
                consumers = second.run("status", "--json").json["bus"]["queries"]["consumers"]
                return len(consumers) == 2 and "second" in consumers

            running.wait_until(is_consumer, "both are consumers of the group")
            running.signal(signal.SIGTERM)
            assert running.end().code == 0
        first.signal(signal.SIGTERM)
        assert first.end().code == 0


@pytest.mark.skipif(WITH_SERVERS, reason="servers are held by nobody")
def test_a_worker_whose_index_another_one_holds_says_who(up: Up) -> None:
    program = up.program.with_settings(ORION_REDIS_URL=up.ready["bus_url"])
    ended = program.run("worker", "--json")
    assert ended.code == 2
    assert str(up.ready["pid"]) in ended.json["error"]["message"]
