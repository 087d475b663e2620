"""The ratios of imports and recalls of one round, and what they are held against."""

from __future__ import annotations

import pytest

from tests.bench.import_floors import COPY, EMBEDDING, UPSERT, Floor
from tests.bench.import_report import Asked, Import, ImportRound, import_ratios


def imported(per_s: float) -> Import:
    return Import(
        memories=100,
        per_s=per_s,
        stored_per_s=1000.0,
        worker_cpu_ms=12.0,
        importer_cpu_ms=1.0,
        importer_peak_mib=60.0,
    )


def a_round(*, alone: float, beside: float, p95_ms: float) -> ImportRound:
    return ImportRound(
        floors={
            EMBEDDING: Floor(per_s=100.0, cpu_ms=8.0),
            UPSERT: Floor(per_s=1000.0, cpu_ms=1.5),
            COPY: Floor(per_s=20_000.0, cpu_ms=0.5),
        },
        alone=imported(alone),
        beside=imported(beside),
        quiet=Asked(recalls=100, unanswered=0, p50_ms=10.0, p95_ms=20.0),
        during=Asked(recalls=100, unanswered=0, p50_ms=15.0, p95_ms=p95_ms),
        rest_busy=0.0,
    )


def test_an_import_is_compared_with_the_slowest_floor_of_its_own_round() -> None:
    found = {one.name: one for one in import_ratios([a_round(alone=85, beside=45, p95_ms=30)] * 2)}

    assert found["import alone / slowest floor"].spread.median == pytest.approx(0.85)
    assert found["import beside recalls / slowest floor"].spread.median == pytest.approx(0.45)
    assert found["recall p95 beside an import / quiet"].spread.median == pytest.approx(1.5)
    assert found["worker CPU of an import alone / CPU of all floors"].spread.median == pytest.approx(1.2)
    assert all(one.reached in (True, None) for one in found.values())


def test_what_misses_its_target_is_said_to_miss_it() -> None:
    found = import_ratios([a_round(alone=79, beside=39, p95_ms=41)])

    assert [one.reached for one in found if one.target] == [False, False, False]
