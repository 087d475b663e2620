"""What `orion-recall doctor` says of an installation, with nothing running."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from orion_recall.cli.doctor.installation import check_installation
from orion_recall.cli.main import run
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import ModelError
from orion_recall.models import embedder
from orion_recall.models.onnx_encoder import Weights
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


def test_the_form_of_the_model_is_told_and_why_it_is_not_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(weights: Weights) -> None:
        raise ModelError("this processor adds up wrongly")

    settings = Settings(data_dir=tmp_path)
    assert checks(settings)["model"][0].startswith(
        "all-MiniLM-L6-v2-int8, its weights are here and known; an index"
    )
    assert "keeps" not in checks(settings.changed(embedding_precision="fp32"))["model"][0]
    monkeypatch.setattr(embedder, "Int8Encoder", broken)
    found, problem = checks(settings)["model"]
    assert problem is None
    assert found.startswith("all-MiniLM-L6-v2, its weights")
    assert "adds up wrongly" in found


def test_embedded_engines_are_checked_where_they_are_needed_only(tmp_path: Path):
    bus, dsn = SecretStr("redis://a"), SecretStr("postgresql://b")
    assert not {"bus", "Postgres"} & set(checks(Settings(data_dir=tmp_path, redis_url=bus, postgres_dsn=dsn)))


def test_a_problem_says_which_setting_mends_it(tmp_path: Path):
    (tmp_path / "profiles").mkdir()
    found = checks(
        Settings(data_dir=tmp_path, model_path=tmp_path / "no-model", profiles_dir=tmp_path / "profiles")
    )
    assert "ORION_MODEL_PATH" in (found["model"][1] or "")
    assert "holds no profile" in (found["profiles"][1] or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_a_problem(tmp_path: Path):
    tmp_path.chmod(0o500)
    assert "ORION_DATA_DIR" in (checks(Settings(data_dir=tmp_path / "x"))["data folder"][1] or "")


def test_a_nearly_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("orion_recall.cli.doctor.installation._LEAST_FREE_BYTES", 10**18)
    assert "make room" in (checks(Settings(data_dir=tmp_path))["data folder"][1] or "")


def test_the_process_that_holds_the_folder_is_named(tmp_path: Path):
    (tmp_path / "valkey").mkdir()
    with FolderLock.acquire(tmp_path / "valkey", "the folder", "for a test"):
        assert f"in use by process {os.getpid()}" in checks(Settings(data_dir=tmp_path))["data folder"][0]


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
