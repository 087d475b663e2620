"""`orion-recall doctor` on the bus: who listens where executors publish their queries."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Up

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
CHANNELS = ("recall.query.v1", "orion:exec:request:RecallService")


def test_it_says_how_many_listen_on_each_channel_and_what_it_means_when_nobody_does(up: Up) -> None:
    looked = up.program.run("doctor", "--json")
    assert looked.code == 0, looked.err
    assert looked.json["channels"] == {"listeners": dict.fromkeys(CHANNELS, 1), "error": None}
    quiet = up.program.with_settings(ORION_QUERY_CHANNELS="somewhere.else,recall.query.v1").run("doctor")
    assert quiet.code == 0, quiet.err
    assert "somewhere.else  nobody listens: what is published here now is lost" in quiet.out
    assert "recall.query.v1  1 listening" in quiet.out


def test_it_says_what_bus_and_postgres_are_and_that_all_is_well(up: Up) -> None:
    servers = up.program.run("doctor", "--json").json["servers"]
    assert [one["problem"] for one in servers] == [None] * len(servers)
    found = {one["name"]: one["found"] for one in servers}
    assert {"descriptors", "bus", "clock", "Postgres", "schema"} <= found.keys()
    assert found["bus"].startswith("Valkey ")
    assert "connections" in found["Postgres"]
    assert "that is this version's" in found["schema"]
    assert "of that of the bus" in found["clock"]


def test_status_says_where_each_worker_listens(up: Up) -> None:
    (worker,) = up.program.run("status", "--json").json["bus"]["workers"]
    assert worker["channels"] == sorted(CHANNELS)
    assert "orion:exec:request:RecallService, recall.query.v1" in up.program.run("status").out


def test_a_bus_that_is_away_is_said(up: Up) -> None:
    away = up.program.with_settings(ORION_REDIS_URL="redis://127.0.0.1:1/0").run("doctor", "--json")
    assert away.code == 1
    assert "127.0.0.1:1" in away.json["channels"]["error"]
