"""What one command says of several workers."""

from __future__ import annotations

import os
from typing import Any

from orion_recall.cli.serving.several import given_variables, ready_of_all


def worker(number: int, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ready": True,
        "instance": f"w{number}",
        "bus_url": "redis://bus",
        "data_dir": f"/d/{number}",
        "pid": 1_000_000 + number,
        "index_position": 10 * number,
        "graph_position": 7,
        "profiles": ["reflect.v1"],
        "broken": {},
        "health_url": f"http://h:{number}",
    }
    return told | changes


def test_all_have_one_line_and_each_has_its_own_part() -> None:
    told = ready_of_all([worker(2), worker(1, graph_position=None, broken={"graph": "another record's"})])
    assert (told["ready"], told["bus_url"], told["data_dir"]) == (True, "redis://bus", "/d/2")
    assert told["pid"] == os.getpid()
    assert (told["index_position"], told["graph_position"]) == (10, 7)
    assert told["broken"] == {"w1 graph": "another record's"}
    assert "instance" not in told
    assert [(one["instance"], one["pid"]) for one in told["workers"]] == [("w2", 1_000_002), ("w1", 1_000_001)]
    assert told["workers"][1]["health_url"] == "http://h:1"


def test_workers_without_copies_are_at_no_position() -> None:
    assert ready_of_all([worker(1, index_position=None)])["index_position"] is None


def test_only_what_is_given_becomes_a_variable() -> None:
    assert given_variables(redis_url="redis://bus", extractor=None) == {"ORION_REDIS_URL": "redis://bus"}
