"""`orion-recall doctor`: what it says of an installation and of servers; each problem with its remedy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from orion_recall.cli.doctor import Check, bus_check, check_installation, check_servers, schema_check
from orion_recall.cli.main import run
from orion_recall.settings import Settings


def checks(settings: Settings) -> dict[str, tuple[str, str | None]]:
    return {one.name: (one.found, one.problem) for one in check_installation(settings)}


def test_without_servers_everything_that_a_start_needs_is_checked(tmp_path: Path):
    found = checks(Settings(data_dir=tmp_path / "new"))
    assert list(found) == ["program", "settings", "profiles", "model", "bus", "Postgres", "data folder"]
    assert {problem for _, problem in found.values()} == {None}
    assert "reflect.v1 (default reflect.v1)" in found["profiles"][0]
    assert "to be made at the first start" in found["data folder"][0]
    assert not (tmp_path / "new").exists(), "a check makes nothing"


def test_a_problem_says_which_setting_mends_it(tmp_path: Path):
    (tmp_path / "profiles").mkdir()
    found = checks(
        Settings(data_dir=tmp_path, model_path=tmp_path / "no-model", profiles_dir=tmp_path / "profiles")
    )
    assert "ORION_MODEL_PATH" in (found["model"][1] or "")
    assert "holds no profile" in (found["profiles"][1] or "")


def test_the_command_prints_each_check_and_its_exit_code_says_whether_all_are_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and told["stores"] == []
    assert [one["name"] for one in told["installation"]][-1] == "data folder"
    monkeypatch.setenv("ORION_MODEL_PATH", str(tmp_path / "nothing"))
    assert run(["doctor"]) == 1
    assert "ORION_MODEL_PATH" in capsys.readouterr().out


INFO: dict[str, Any] = {
    "valkey_version": "9.1.2", "used_memory": 10_000_000, "maxmemory": 1_000_000_000,
    "maxmemory_policy": "noeviction", "connected_clients": 7, "maxclients": 10_000, "role": "master",
}  # fmt: skip


def server_checks(settings: Settings) -> dict[str, Check]:
    return {one.name: one for one in asyncio.run(check_servers(settings))}


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


def test_a_schema_of_an_earlier_or_a_later_version_has_its_remedy():
    assert schema_check({"1", "2"}, {"1", "2"}).problem is None
    assert "2 not applied yet" in (schema_check({"1"}, {"1", "2"}).problem or "")
    assert "2 of another version: start that version" in (schema_check({"1", "2"}, {"1"}).problem or "")


def test_servers_that_are_away_are_told_with_the_setting_and_without_secrets(tmp_path: Path):
    settings = Settings(
        data_dir=tmp_path,
        redis_url=SecretStr("redis://:opensesame@127.0.0.1:1/0"),
        postgres_dsn=SecretStr("postgresql://ana:opensesame@127.0.0.1:1/db"),
    )
    found = server_checks(settings)
    assert "127.0.0.1:1" in (found["bus"].problem or "")
    assert "put ORION_REDIS_URL right" in (found["bus"].problem or "")
    assert "(at 127.0.0.1:1/db)" in (found["Postgres"].problem or "")
    assert "opensesame" not in str(found)


def test_a_ring_that_others_can_read_is_a_problem(tmp_path: Path):
    ring = tmp_path / "ring"
    ring.write_text("")
    ring.chmod(0o644)
    assert "chmod 600" in (server_checks(Settings(data_dir=tmp_path, keys_file=ring))["keys"].problem or "")
    ring.chmod(0o600)
    assert server_checks(Settings(data_dir=tmp_path, keys_file=ring))["keys"].found == f"0 keys in {ring}"
