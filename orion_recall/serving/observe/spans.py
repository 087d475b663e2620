"""Spans for the stages and sources of a recall, made afterwards from its measured times.

A recall that is not traced costs nothing here. The times are put one after another from the recall's beginning:
stages follow each other, and sources are searched together in the stage `search`.
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from orion_recall import telemetry as t
from orion_recall.errors import SettingsError, install_hint
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.serving.worker import QueryAnswer
from orion_recall.text.normal import storable
from orion_recall.values import SourceReport


def otlp_exporters() -> tuple[SpanExporter, MetricExporter] | None:
    """The exporters of spans and of metrics, or None when no endpoint is set. Nothing is sent yet.

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
        raise SettingsError(f"{why}: {install_hint('otlp')}, or unset it") from error
    return OTLPSpanExporter(), OTLPMetricExporter()


_TEXT_CHARS = 4000


def describe_recall(
    facts: RequestFacts, answer: QueryAnswer, span: Span, tracer: Tracer, *, with_content: bool
) -> None:
    """Add the results to the recall's span, and a child span for every stage and source."""
    recalled, query = answer.recalled, facts.query
    span.set_attributes({t.ATTRIBUTE_OPERATION: t.OPERATION_SEARCH, t.ATTRIBUTE_SPAN_KIND: t.SPAN_KIND_RETRIEVER})
    if facts.tenant:
        span.set_attribute(t.ATTRIBUTE_MEMORY_STORE, facts.tenant)
    if query is not None and query.session_id is not None:
        span.set_attribute(t.ATTRIBUTE_CONVERSATION, query.session_id)
    if query is not None and with_content:
        text = _exportable(query.fragment)
        span.set_attributes({t.ATTRIBUTE_QUERY: text, t.ATTRIBUTE_INPUT: text})
    if answer.outcome == "failed":
        span.set_status(Status(StatusCode.ERROR))
    if recalled is None:
        return
    found = len(recalled.selection.items)
    span.set_attributes(
        {t.ATTRIBUTE_ITEMS: found, t.ATTRIBUTE_RECORDS: found, t.ATTRIBUTE_TOKENS: recalled.selection.tokens}
    )
    if with_content:
        span.set_attribute(t.ATTRIBUTE_RENDERED, _exportable(recalled.rendered))
    parent, at_ns = trace.set_span_in_context(span), answer.recall_began_ns
    for stage, ms in recalled.stage_ms.items():
        made = _span(tracer, t.SPAN_STAGE.format(stage), parent, at_ns, ms)
        made.set_attribute(t.ATTRIBUTE_SPAN_KIND, t.SPAN_KIND_CHAIN)
        if stage == "search":
            below = trace.set_span_in_context(made)
            for report in recalled.reports:
                if report.status != "off":
                    _describe_source(report, tracer, below, at_ns, with_content)
        at_ns += round(ms * 1e6)
        made.end(at_ns)


def _exportable(text: str) -> str:
    """The beginning of a text. Half of a surrogate pair in one would cost the exporter its whole batch of spans."""
    return storable(text[:_TEXT_CHARS])


def _describe_source(
    report: SourceReport, tracer: Tracer, parent: Context, began_ns: int, with_content: bool
) -> None:
    made = _span(tracer, t.SPAN_SOURCE.format(report.source), parent, began_ns, report.ms)
    made.set_attributes(
        {
            t.ATTRIBUTE_OPERATION: t.OPERATION_RETRIEVAL,
            t.ATTRIBUTE_DATA_SOURCE: report.source,
            t.ATTRIBUTE_SOURCE: report.source,
            t.ATTRIBUTE_STATUS: report.status,
            t.ATTRIBUTE_HITS: len(report.hits),
        }
    )
    if report.error is not None:
        # A server may repeat the query in its error; the decision has the text.
        made.set_status(Status(StatusCode.ERROR, _exportable(report.error) if with_content else None))
    made.end(began_ns + round(report.ms * 1e6))


def _span(tracer: Tracer, name: str, parent: Context, began_ns: int, ms: float) -> Span:
    return tracer.start_span(name, parent, attributes={t.ATTRIBUTE_MS: round(ms, 3)}, start_time=began_ns)
