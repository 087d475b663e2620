from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.confidence.answer import Withheld
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.recall.types import Recalled
from orion_recall.serving.observe.instruments import Instruments
from orion_recall.serving.worker import ServedMessage
from orion_recall.telemetry import continue_trace
from orion_recall.values import Scope, SourceReport

Sample = Callable[..., float | None]

SERVED = ServedMessage(
    facts=RequestFacts(decision_id="d", corr_id="c", profile="reflect.v1", tenant="acme"),
    outcome="ok",
    commit="committed",
    seconds=0.02,
    traced=continue_trace(None),
    recalled=Recalled(
        outcome="ok",
        scope=Scope(tenant="acme"),
        reports=(
            SourceReport(source="vector", status="ok", ms=3.0),
            SourceReport(source="rdf", status="late", ms=250.0, error="late"),
            SourceReport(source="sql_timeline", status="off"),
        ),
        ranked=(),
        selection=Selection(items=(), tokens=17, dropped={}),
        stage_ms={"search": 4.0, "rank": 1.5},
    ),
    recall_began_ns=0,
)


@pytest.fixture
def measured() -> tuple[Instruments, Sample]:
    """Instruments, and a look at what they show: `sample(name, **labels)`."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    instruments = Instruments(MeterProvider((reader,), shutdown_on_exit=False).get_meter("test"))

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"orion_recall_{name}", labels)

    return instruments, sample


def test_a_recall_is_counted_with_its_stages_and_sources(measured: tuple[Instruments, Sample]) -> None:
    instruments, sample = measured
    for _ in range(2):
        instruments.record(SERVED)
    instruments.record(replace(SERVED, outcome="invalid", recalled=None))
    assert sample("recalls_total", outcome="ok", profile="reflect.v1") == 2
    assert sample("recalls_total", outcome="invalid", profile="reflect.v1") == 1
    assert sample("duration_seconds_count", profile="reflect.v1") == 3
    assert sample("duration_seconds_sum", profile="reflect.v1") == pytest.approx(0.06)
    assert sample("stage_duration_seconds_sum", stage="search") == pytest.approx(0.008)
    assert sample("stage_duration_seconds_bucket", stage="rank", le="0.001") == 0
    assert sample("stage_duration_seconds_bucket", stage="rank", le="0.0025") == 2
    assert sample("source_searches_total", source="vector", status="ok") == 2
    assert sample("source_searches_total", source="rdf", status="late") == 2
    assert sample("source_duration_seconds_sum", source="rdf") == pytest.approx(0.5)
    assert sample("source_duration_seconds_count", source="sql_timeline") is None, "it was not asked"
    assert sample("tokens_total", profile="reflect.v1") == 34
    assert sample("items_total", profile="reflect.v1") == 0


def test_results_and_fallbacks_are_counted(measured: tuple[Instruments, Sample]) -> None:
    instruments, sample = measured
    instruments.record(SERVED)
    assert SERVED.recalled is not None
    away = SourceReport(source="lexical", status="failed", error="away", fallback="record")
    instruments.record(replace(SERVED, recalled=replace(SERVED.recalled, reports=(away,))))
    assert sample("fallbacks_total", source="lexical") == 1
    assert sample("fallbacks_total", source="vector") is None
    assert sample("results_bucket", profile="reflect.v1", le="0") == 2
    assert sample("results_count", profile="reflect.v1") == 2


def test_an_answer_that_was_withheld_is_counted_apart_from_one_that_found_nothing(
    measured: tuple[Instruments, Sample],
) -> None:
    instruments, sample = measured
    assert SERVED.recalled is not None
    withheld = replace(SERVED.recalled, outcome="empty", withheld=Withheld(reason="it is thanks and asks nothing"))
    instruments.record(replace(SERVED, outcome="empty"))
    assert sample("no_answers_total", profile="reflect.v1") is None
    instruments.record(replace(SERVED, outcome="empty", recalled=withheld))
    assert sample("no_answers_total", profile="reflect.v1") == 1
    assert sample("recalls_total", outcome="empty", profile="reflect.v1") == 2
