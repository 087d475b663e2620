from __future__ import annotations

import sys

import pytest

from orion_recall.errors import SettingsError
from orion_recall.serving.observe.spans import otlp_exporters

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("endpoint", "protocol", "said"),
    [
        ("collector:4318", "", "OTEL_EXPORTER_OTLP_ENDPOINT: write http://"),
        ("http://collector:4317", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported"),
    ],
)
def test_what_cannot_be_spoken_is_refused(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, protocol: str, said: str
) -> None:
    monkeypatch.setenv(ENDPOINT, endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with pytest.raises(SettingsError, match=said):
        otlp_exporters()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://user:hunter2@127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError, match=r"pip install 'orion-recall\[otlp\]'") as refused:
        otlp_exporters()
    assert "hunter2" not in str(refused.value)
