from __future__ import annotations

import threading

import pytest

from orion_recall.errors import SettingsError
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.serving.observe.observer import observing
from orion_recall.serving.observe.port import Readiness
from orion_recall.serving.worker import ServedMessage
from orion_recall.settings import Settings
from orion_recall.telemetry import continue_trace

SERVED = ServedMessage(
    facts=RequestFacts(decision_id="d", corr_id="c", profile="reflect.v1"),
    outcome="invalid",
    commit="committed",
    seconds=0.01,
    traced=continue_trace(None),
    recalled=None,
    recall_began_ns=0,
)


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


async def test_without_a_port_and_an_endpoint_there_is_no_thread_and_nothing_is_recorded() -> None:
    before = set(threading.enumerate())
    async with observing(Settings(health_port=None)) as observer:
        observer.served(SERVED)
        assert (observer.url, observer.tracer) == (None, None)
        assert set(threading.enumerate()) <= before


async def test_an_endpoint_that_cannot_be_spoken_to_is_refused_before_anything_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector")
    before = set(threading.enumerate())
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        async with observing(Settings(health_port=0)):
            pass
    assert set(threading.enumerate()) <= before


async def test_nothing_is_ready_before_there_is_a_service() -> None:
    found = await Readiness().check()
    assert not found.ready
    assert found.as_json() == {
        "ready": False,
        "checks": {"model": {"ok": False, "reason": "the model and the stores are being opened"}},
    }
