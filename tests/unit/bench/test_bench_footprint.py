"""What a memory takes: the stores' files on the disk, and the growth from one size to another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.footprint import Footprint, Size, disk_by_store, memory_of, read_options


def size(memories: int, *, index: int, private: int) -> Size:
    return Size(
        memories=memories,
        disk={"index": index, "graph": 1_000_000},
        private=private,
        mapped=0,
        cpu_ms={"worker": 10.0},
        per_s=100.0,
    )


def test_each_memory_takes_the_growth_and_not_what_an_empty_store_takes():
    found = Footprint(sizes=[
        size(1000, index=50_000_000, private=300_000_000),
        size(2000, index=1, private=1),
        size(11_000, index=150_000_000, private=340_000_000),
    ])  # fmt: skip

    assert found.disk_each("index") == pytest.approx(10_000)
    assert found.disk_each("graph") == 0
    assert found.all_disk_each == pytest.approx(10_000)
    assert found.private_each == pytest.approx(4_000)


def test_a_log_of_fixed_size_is_no_memorys() -> None:
    log = {"postgres: write-ahead log": 30_000_000}
    first, last = size(1000, index=0, private=0), size(2000, index=8_000_000, private=0)
    grown = replace(last, disk={**last.disk, **log})
    assert Footprint(sizes=[first, grown]).all_disk_each == pytest.approx(8_000)


def test_files_count_for_their_store_by_the_room_they_take(tmp_path: Path):
    for name in ("index/shard/a", "postgres/cluster/pg_wal/1", "postgres/cluster/base/1", "engines.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100_000)
    with (tmp_path / "index/shard/holes").open("wb") as file:
        file.truncate(32 << 20)

    found = disk_by_store(tmp_path)

    assert 100_000 <= found["index"] < 1_000_000
    assert found["postgres: write-ahead log"] >= 100_000
    assert found["postgres: tables"] >= 100_000
    assert found["other"] >= 100_000
    assert found["graph"] == found["valkey"] == 0


def test_private_and_mapped_memory_are_read_from_the_status_of_a_process():
    assert memory_of("VmRSS:\t 30 kB\nRssAnon:\t  20 kB\nRssFile:\t  10 kB\n") == (20 << 10, 10 << 10)
    assert memory_of("nothing known\n") == (0, 0)


def test_one_size_shows_no_growth():
    with pytest.raises(SystemExit):
        read_options(["--sizes", "1000"])
