"""What `orion-recall doctor` makes of what servers say: each problem with its remedy."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from orion_recall.cli.doctor.installation import Check
from orion_recall.cli.doctor.servers import bus_check, check_servers, clock_check, copy_check, schema_check
from orion_recall.settings import Settings

INFO: dict[str, Any] = {
    "valkey_version": "9.1.2",
    "used_memory": 10_000_000,
    "maxmemory": 1_000_000_000,
    "maxmemory_policy": "noeviction",
    "connected_clients": 7,
    "maxclients": 10_000,
    "role": "master",
}


def checks(settings: Settings) -> dict[str, Check]:
    return {one.name: one for one in asyncio.run(check_servers(settings))}


def test_a_bus_that_is_well_is_told_with_its_limits():
    assert bus_check(INFO) == Check(name="bus", found="Valkey 9.1.2, 10 of 1000 MB, 7 of 10000 connections")
    assert "Redis 7.2, 10 MB, no limit" in bus_check({"redis_version": "7.2", "used_memory": 10_000_000}).found


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"used_memory": 950_000_000}, "raise maxmemory"),
        ({"maxmemory_policy": "allkeys-lru"}, "set maxmemory-policy noeviction"),
        ({"connected_clients": 9_500}, "raise maxclients"),
        ({"role": "slave"}, "set the master's address"),
    ],
)
def test_a_bus_that_is_not_well_has_its_remedy(changes: dict[str, Any], remedy: str):
    assert remedy in (bus_check(INFO | changes).problem or "")


def test_a_clock_is_told_by_how_much_and_which_way():
    assert clock_check(0.2, 1.0).problem is None
    assert "7.0 s ahead of" in clock_check(7, 1.0).found
    assert "7.0 s behind" in clock_check(-7, 1.0).found
    assert "NTP" in (clock_check(-7, 1.0).problem or "")


def test_a_schema_of_an_earlier_or_another_version_is_a_problem():
    assert schema_check({"1", "2"}, {"1", "2"}).problem is None
    assert "2 not applied yet" in (schema_check({"1"}, {"1", "2"}).problem or "")
    assert "2 of another version: start that version" in (schema_check({"1", "2"}, {"1"}).problem or "")


def test_a_copy_that_is_far_behind_is_a_problem():
    assert [copy_check("index of a", behind).problem is None for behind in (-1, 0, 5, 50_000)] == [True] * 3 + [
        False
    ]


def test_servers_that_are_away_are_told_with_the_setting_and_without_secrets(tmp_path: Path):
    settings = Settings(
        data_dir=tmp_path,
        redis_url=SecretStr("redis://:opensesame@127.0.0.1:1/0"),
        postgres_dsn=SecretStr("postgresql://ana:opensesame@127.0.0.1:1/db"),
    )
    found = checks(settings)
    assert "127.0.0.1:1" in (found["bus"].problem or "")
    assert "put ORION_REDIS_URL right" in (found["bus"].problem or "")
    assert "(at 127.0.0.1:1/db)" in (found["Postgres"].problem or "")
    assert "opensesame" not in str(found)


def test_a_ring_that_others_can_read_is_a_problem(tmp_path: Path):
    ring = tmp_path / "ring"
    ring.write_text("")
    ring.chmod(0o644)
    assert "chmod 600" in (checks(Settings(data_dir=tmp_path, keys_file=ring))["keys"].problem or "")
    ring.chmod(0o600)
    assert checks(Settings(data_dir=tmp_path, keys_file=ring))["keys"].found == f"0 keys in {ring}"


def test_few_descriptors_are_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def few(what: int) -> tuple[int, int]:
        return (256, 4096)

    monkeypatch.setattr(resource, "getrlimit", few)
    assert "ulimit -n 4096" in (checks(Settings(data_dir=tmp_path))["descriptors"].problem or "")
