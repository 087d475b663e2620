"""OTLP exporters for OTEL_EXPORTER_OTLP_ENDPOINT; they need the extra `otlp`.

The standard variables set the rest: headers, time-outs, certificates, OTEL_TRACES_SAMPLER, the export interval.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from orion_recall.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Otlp:
    """The exporters of spans and of metrics."""

    spans: SpanExporter
    metrics: MetricExporter


def otlp_exporters() -> Otlp | None:
    """The exporters, or None when no endpoint is set. Nothing is sent yet.

    SettingsError for an endpoint that is no HTTP address, a protocol other than http/protobuf, or a missing extra.
    """
    endpoint = os.environ.get(OTEL_EXPORTER_OTLP_ENDPOINT, "").strip()
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"{OTEL_EXPORTER_OTLP_ENDPOINT}: write http://host:4318 or https://…")
    protocol = os.environ.get(OTEL_EXPORTER_OTLP_PROTOCOL, "").strip() or "http/protobuf"
    if protocol != "http/protobuf":
        raise SettingsError(f"{OTEL_EXPORTER_OTLP_PROTOCOL}: {protocol!r} is not supported; use http/protobuf")
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        why = f"{OTEL_EXPORTER_OTLP_ENDPOINT} is set, but its exporter is not installed"
        raise SettingsError(f"{why}: pip install 'orion-recall[otlp]', or unset it") from error
    return Otlp(spans=OTLPSpanExporter(), metrics=OTLPMetricExporter())
