"""Nothing is called but addresses that were configured: a whole demo connects to this machine alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

# What Python writes of a loopback address, or of a socket in the file system.
_HERE = re.compile(r"\S+ (\(?'(127\.0\.0\.1|::1|localhost)'|'/|b'/|None|\(''|'')")


def test_a_demo_that_stores_and_recalls_connects_to_this_machine_alone(program: Program) -> None:
    told = program.folder / "addresses"
    watched = replace(program, module="tests.stand_ins.watched_program").with_settings(WATCHED_ADDRESSES=str(told))
    ended = watched.run("demo", "--data", str(program.data), "--json")
    assert ended.code == 0, ended.err
    assert {recall["bundle"]["stats"]["outcome"] for recall in ended.json["recalls"]} == {"ok"}
    addresses = told.read_text().splitlines()
    assert any(line.startswith("socket.connect") for line in addresses), "bus and Postgres are connected to"
    assert [line for line in addresses if not _HERE.match(line)] == []


def test_a_call_to_another_machine_would_be_seen() -> None:
    assert not _HERE.match("socket.connect ('203.0.113.7', 443)")
    assert not _HERE.match("socket.getaddrinfo 'huggingface.co'")
    assert _HERE.match("socket.connect ('127.0.0.1', 6379)")
