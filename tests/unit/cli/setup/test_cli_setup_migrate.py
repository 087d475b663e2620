from __future__ import annotations

import json

import pytest

from orion_recall.cli.main import run


def test_without_an_address_it_says_which_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ORION_POSTGRES_DSN", raising=False)
    assert run(["migrate", "--json"]) == 2
    assert "ORION_POSTGRES_DSN" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_server_that_is_away_is_an_error_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://orion_owner:opensesame@127.0.0.1:1/orion")
    assert run(["migrate"]) == 1
    printed = capsys.readouterr()
    assert "cannot be reached" in printed.err
    assert "opensesame" not in printed.out + printed.err
