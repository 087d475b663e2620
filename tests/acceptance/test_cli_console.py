from __future__ import annotations

import json
import signal
import socket
import urllib.request

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_the_console_shows_a_running_system_until_it_is_stopped(up: Up) -> None:
    reply = up.program.run("ask", "What is wrong with the crane?", "--json")
    decision = reply.json["bundle"]["stats"]["decision_id"]
    with up.program.started("console", "--port", "0", "--json") as running:
        url = running.ready()["url"]

        def is_shown() -> bool:
            with urllib.request.urlopen(url, timeout=60) as page:
                return f"d-{decision}" in page.read().decode()

        running.wait_until(is_shown, "the decision on the first page")
        with urllib.request.urlopen(f"{url}now/stream", timeout=60) as live:
            assert live.readline().startswith(b":")
            running.signal(signal.SIGTERM)
            ended = running.end()
    assert (ended.code, ended.err) == (0, "")


def test_the_console_says_what_is_wrong_and_does_not_start(program: Program, up: Up) -> None:
    without = program.run("console")
    assert (without.code, "no bus: start `orion-recall up`" in without.err) == (2, True)
    open_to_all = up.program.run("console", "--host", "0.0.0.0", "--port", "0")
    assert open_to_all.code == 2
    assert "ORION_CONSOLE_TOKENS must name a file of tokens" in open_to_all.err


def test_up_with_a_console_whose_port_is_taken_starts_nothing_and_names_the_setting(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = program.with_settings(ORION_CONSOLE_PORT=port).run("up", "--console")
    assert ended.code == 2
    assert f"the console cannot listen on 127.0.0.1, port {port}" in ended.err
    assert "ORION_CONSOLE_PORT" in ended.err
    assert not (program.data / "postgres").exists()


def test_a_new_token_is_printed_once_and_its_hash_for_the_file(program: Program) -> None:
    made = program.run("console", "--new-token", 'A "quoted" name')
    assert made.code == 0
    assert r'name = "A \"quoted\" name"' in made.out
    assert "may = []" in made.out, "no rights but those that somebody writes there"
    token = made.err.rpartition(": ")[2].strip()
    assert token not in made.out
    told = json.loads(program.run("console", "--new-token", "ana", "--json").out)
    assert set(told) == {"name", "token", "sha256"}
