from __future__ import annotations

from orion_recall.evaluation.systems.latency import Latency


def test_percentiles_are_measured_values() -> None:
    made = Latency.of([float(number) for number in range(100, 0, -1)])
    assert (made.p50, made.p95, made.p99, made.calls) == (50.0, 95.0, 99.0, 100)
    assert Latency.of([7.0]) == Latency(p50=7.0, p95=7.0, p99=7.0, calls=1)
