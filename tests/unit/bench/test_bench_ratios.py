from __future__ import annotations

import pytest

from tests.bench.engine_floors import BUS_TOGETHER, EMBEDDING_BATCH
from tests.bench.measure import Cost
from tests.bench.ratios import CPU_SUM, OWN_READS, WALL_SUM, SizeRound, growth, ratios
from tests.bench.recall_load import BUS, CLIENT, RECORD, WORKER, Cell


def _cell(in_flight: int, *, p50_ms: float, worker_ms: float) -> Cell:
    return Cell(
        in_flight=in_flight,
        recalls=100,
        unanswered=0,
        p50_ms=p50_ms,
        p95_ms=2 * p50_ms,
        per_s=10.0,
        cpu_ms={WORKER: worker_ms, BUS: 1.0, RECORD: 1.0, CLIENT: 1.0},
        loop_ms=worker_ms / 4,
    )


def _round(*, p50_ms: float = 12.0, worker_ms: float = 22.0, rest_busy: float = 0.0, size: int = 1000) -> SizeRound:
    """Every floor takes 1 ms of wall and of CPU, every stage 1 ms of CPU."""
    one = Cost(p50_ms=1.0, p95_ms=1.0, cpu_ms=1.0, calls=10)
    names: list[str] = [*WALL_SUM, *OWN_READS, BUS_TOGETHER, EMBEDDING_BATCH]
    floors = dict.fromkeys(names, one)
    return SizeRound(
        size=size,
        floors=floors,
        stages_cpu_ms={name: 1.0 for name in CPU_SUM if name not in floors},
        cells={
            1: _cell(1, p50_ms=p50_ms, worker_ms=99.0),
            32: _cell(32, p50_ms=500.0, worker_ms=worker_ms),
        },
        rest_busy=rest_busy,
    )


def test_p50_is_that_of_one_at_a_time_and_cpu_that_of_the_most_in_flight() -> None:
    wall, cpu, without, engines, loop = ratios([_round()])

    assert wall.counted is not None and wall.counted.median == pytest.approx(12 / len(WALL_SUM))
    assert cpu.counted is not None and cpu.counted.median == pytest.approx(22 / len(CPU_SUM))
    assert without.counted is not None
    assert without.counted.median == pytest.approx(22 / (len(CPU_SUM) - len(OWN_READS)))
    assert engines.counted is not None and engines.counted.median == pytest.approx(22 / 9)
    assert loop.counted is not None and loop.counted.median == pytest.approx(0.25)


def test_entity_lookup_and_fetch_are_stages_but_no_floors() -> None:
    assert set(OWN_READS) < set(CPU_SUM)
    assert not set(OWN_READS) & set(WALL_SUM)


def test_wall_ratios_of_a_busy_round_do_not_count_and_cpu_ratios_do() -> None:
    wall, cpu, *_ = ratios([_round(p50_ms=6.0), _round(p50_ms=60.0, rest_busy=0.5)])

    assert (wall.rounds_counted, wall.rounds) == (1, 2)
    assert wall.counted is not None and wall.counted.high == pytest.approx(1.0)
    assert wall.every.high == pytest.approx(10.0)
    assert wall.reached is True
    assert cpu.rounds_counted == 2


def test_without_a_quiet_round_nothing_is_reached_or_missed() -> None:
    wall, *_ = ratios([_round(rest_busy=0.15)])

    assert wall.counted is None
    assert wall.reached is None


def test_a_ratio_above_its_target_is_not_reached() -> None:
    wall, cpu, *_ = ratios([_round(p50_ms=2.01 * len(WALL_SUM), worker_ms=1.81 * len(CPU_SUM))])

    assert wall.reached is False
    assert cpu.reached is False


def test_growth_compares_the_rounds_pair_by_pair() -> None:
    small = [_round(worker_ms=10.0), _round(worker_ms=20.0)]
    large = [_round(worker_ms=15.0, size=10_000), _round(worker_ms=20.0, size=10_000)]

    worker, *_ = growth(small, large)

    assert worker.counted is not None
    assert (worker.counted.low, worker.counted.high) == (1.0, 1.5)
