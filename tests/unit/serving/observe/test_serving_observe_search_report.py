from __future__ import annotations

from dataclasses import replace

import pytest

from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.recall.types import Recalled
from orion_recall.serving.observe.heartbeat_fields import SearchReport, searches_of
from orion_recall.serving.worker import ServedMessage
from orion_recall.telemetry import continue_trace
from orion_recall.values import Scope, SourceReport

VECTOR = SourceReport(source="vector", status="ok", ms=3.0)


def served(seconds: float, report: SourceReport = VECTOR) -> ServedMessage:
    return ServedMessage(
        facts=RequestFacts(decision_id="d", corr_id="c", profile="reflect.v1", tenant="acme"),
        outcome="ok",
        commit="committed",
        seconds=seconds,
        traced=continue_trace(None),
        recalled=Recalled(
            outcome="ok",
            scope=Scope(tenant="acme"),
            reports=(report,),
            ranked=(),
            selection=Selection(items=(), tokens=0, dropped={}),
            stage_ms={},
        ),
        recall_began_ns=0,
    )


def test_the_line_has_queries_percentiles_and_the_fallback_rate() -> None:
    report = SearchReport()
    for ms in range(1, 201):
        report.record(served(ms / 1000))
    for _ in range(2):
        report.record(served(0.001, replace(VECTOR, status="failed", fallback="record")))
    figures = report.figures
    assert (figures.queries, figures.fallbacks) == (202, 2)
    assert (figures.p50_ms, figures.p95_ms, figures.p99_ms) == pytest.approx((99.0, 190.0, 198.0))
    assert str(figures) == (
        "Search Metrics: 202 queries, P50 latency: 99.00ms, P95 latency: 190.00ms, P99 latency: 198.00ms, "
        "fallback rate: 1.0%"
    )
    assert searches_of({"searches": report.field}) == figures
