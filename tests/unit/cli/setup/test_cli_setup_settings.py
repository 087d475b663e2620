from __future__ import annotations

import json
import os

import pytest

from orion_recall.cli.main import run
from orion_recall.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in [name for name in os.environ if name.startswith("ORION_")]:
        monkeypatch.delenv(name)


def test_it_says_what_is_set_and_never_to_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORION_REDIS_URL", "redis://worker:opensesame@bus")
    assert run(["settings", "--json"]) == 0
    printed = capsys.readouterr().out
    listed = json.loads(printed)
    assert [row["variable"] for row in listed["settings"] if row["is_set"]] == ["ORION_REDIS_URL"]
    assert len(listed["settings"]) == len(Settings.model_fields)
    assert run(["settings"]) == 0
    assert "opensesame" not in printed + capsys.readouterr().out


def test_a_misspelt_name_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ORION_TENANT", "acme")
    assert run(["settings"]) == 0
    assert "nothing reads ORION_TENANT" in capsys.readouterr().err


def test_what_cannot_be_used_is_told_and_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORION_DEADLINE_MS", "soon")
    assert run(["settings", "--json"]) == 2
    assert "ORION_DEADLINE_MS" in json.loads(capsys.readouterr().out)["error"]
    assert run(["settings"]) == 2
    assert "these settings cannot be used: ORION_DEADLINE_MS" in capsys.readouterr().err
