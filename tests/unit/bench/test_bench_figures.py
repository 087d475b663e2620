"""Figures that are worked out of what was measured: ratios to the floors, growth, what a memory takes, waiting."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from tests.bench.background import Waited, settled
from tests.bench.bench import Imported, Ratio, Round, SizeResult, growth, ratios
from tests.bench.engine_floors import CPU_SUM, WALL_SUM
from tests.bench.imports import Import, Result, Size
from tests.bench.measure import Cost, Spread, disk_by_store
from tests.bench.running_worker import BUS, CLIENT, RECORD, WORKER, Cell


def one_round(ms: float, *, rest_busy: float = 0.0) -> Round:
    """All floors cost 1 ms, and recalls so many."""
    floor = Cost(p50_ms=1.0, p95_ms=1.0, cpu_ms=1.0, calls=1)
    cells = {
        n: Cell(
            in_flight=n, recalls=1, unanswered=0, p50_ms=ms, p95_ms=ms, per_s=1.0, loop_ms=ms / 4,
            cpu_ms=dict.fromkeys((WORKER, BUS, RECORD, CLIENT), ms),
        )
        for n in (1, 32)
    }  # fmt: skip
    return Round(floors=dict.fromkeys((*WALL_SUM, *CPU_SUM), floor), cells=cells, rest_busy=rest_busy)


def of_size(size: int, rounds: Sequence[Round]) -> SizeResult:
    imported = Imported(memories=size, seconds=1.0, worker_peak_mib=1.0)
    return SizeResult(size=size, imported=imported, rounds=rounds, peak_mib={}, outcomes={}, silent={})


def test_wall_times_count_in_quiet_rounds_and_cpu_in_all() -> None:
    wall, cpu, loop = ratios([one_round(9), one_round(18, rest_busy=0.5), one_round(12)])
    assert wall.spread == Spread(median=10.5 / len(WALL_SUM), low=9 / len(WALL_SUM), high=12 / len(WALL_SUM))
    assert (wall.counted, cpu.counted) == (2, 3)
    assert cpu.spread is not None and cpu.spread.median == 12 / len(CPU_SUM)
    assert loop.spread == Spread(median=0.25, low=0.25, high=0.25)
    [busy, *_] = ratios([one_round(9, rest_busy=0.5)])
    assert (busy.spread, busy.verdict) == (None, "<= 2: not judged, no quiet round")


def test_a_target_is_reached_or_not() -> None:
    at_two = Spread(median=2.0, low=1.0, high=9.0)
    assert [Ratio(name="x", spread=at_two, counted=1, target=most).verdict for most in (2.0, 1.9, None)] == [
        "<= 2: reached",
        "<= 1.9: NOT reached",
        "",
    ]


def test_growth_is_worked_out_round_by_round() -> None:
    found = growth(of_size(100, [one_round(10), one_round(40)]), of_size(1000, [one_round(20), one_round(40)]))
    assert found[0].spread == Spread(median=1.5, low=1.0, high=2.0)
    assert found[0].name == "worker CPU, 1,000 memories against 100"


def test_each_memory_takes_the_growth_and_not_what_an_empty_store_takes() -> None:
    def size(memories: int, index: int, private: int, log: int) -> Size:
        return Size(
            memories=memories,
            imported=Import(memories=1, per_s=1.0, stored_per_s=1.0, cpu_ms={}, importer_peak_mib=1.0),
            disk={"index": index, "graph": 1_000_000, "postgres: write-ahead log": log},
            private_mib=private / 2**20,
            mapped_mib=0,
        )

    steps = [size(1000, 50_000_000, 300_000_000, 0), size(2000, 1, 1, 0), size(11_000, 150_000_000, 340_000_000, 9)]
    found = Result(sizes=steps, rounds=[], worker_peak_mib=1.0)
    assert found.disk_each("index") == found.disk_each() == pytest.approx(10_000)
    assert (found.disk_each("graph"), found.private_each) == (0, pytest.approx(4_000))


def test_files_count_for_their_store_by_the_room_they_take(tmp_path: Path) -> None:
    for name in ("index/shard/a", "postgres/cluster/pg_wal/1", "postgres/cluster/base/1", "engines.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100_000)
    with (tmp_path / "index/shard/holes").open("wb") as file:
        file.truncate(32 << 20)

    found = disk_by_store(tmp_path)

    assert 100_000 <= found["index"] < 1_000_000
    assert found["graph"] == found["valkey"] == 0
    assert min(found[name] for name in ("postgres: write-ahead log", "postgres: tables", "other")) >= 100_000


async def test_what_does_not_end_is_told_with_the_seconds_it_was_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [one.ended for one in await settled([], look_s=0.0, longest_s=0.0)] == [True, True, False], (
        "nobody is at rest"
    )
    assert "it goes on" in capsys.readouterr().err
    assert str(Waited(what="x", seconds=1.26, ended=True)) == "x: 1.3 s"


def test_work_is_looked_for_in_tables_that_the_record_has() -> None:
    schema = (files("orion_recall") / "memory" / "schema" / "memories.sql").read_text("utf-8")
    assert all(f"CREATE TABLE {table} (" in schema for table in ("projections", "memory_extractions", "outbox"))
