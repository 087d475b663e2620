"""How much must stay free, and who stops at what."""

from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.engines import disk_space
from orion_recall.engines.disk_space import DiskSpace, copy_space
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.valkey import ValkeyServer
from orion_recall.errors import DiskShort

MIB = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the disk says is free."""
    left = {"bytes": 0}

    def free_bytes(folder: Path) -> int:
        return left["bytes"]

    monkeypatch.setattr(disk_space, "free_bytes", free_bytes)
    return left


def test_below_the_least_it_is_short_and_says_where_and_what_to_do(tmp_path: Path, free: dict[str, int]) -> None:
    space = copy_space("index", tmp_path, 256 * MIB)
    free["bytes"] = 256 * MIB
    space.check()
    free["bytes"] -= 1
    with pytest.raises(DiskShort, match=r"256 MiB must stay free \(ORION_MIN_FREE_BYTES\): make room") as raised:
        space.check()
    assert str(tmp_path) in str(raised.value)


def test_zero_is_not_watched(tmp_path: Path, free: dict[str, int]) -> None:
    assert copy_space("index", tmp_path, 0).shortage() is None


def test_what_can_be_made_again_stops_first_and_the_record_last(tmp_path: Path) -> None:
    spaces: list[DiskSpace] = [
        copy_space("index", tmp_path, 256 * MIB),
        ValkeyServer(tmp_path, least_bytes=256 * MIB).space,
        PostgresServer(tmp_path, least_bytes=256 * MIB).space,
    ]
    assert [one.least_bytes // MIB for one in spaces] == [256, 128, 64]
