"""Spans for the stages and sources of a recall, made afterwards from its measured times.

A recall that is not traced costs nothing here. The times are put one after another from the recall's beginning:
stages follow each other, and sources are searched together in the stage `search`.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from orion_recall.serving.worker import ServedMessage
from orion_recall.telemetry import (
    ATTRIBUTE_HITS,
    ATTRIBUTE_ITEMS,
    ATTRIBUTE_MS,
    ATTRIBUTE_QUERY,
    ATTRIBUTE_RENDERED,
    ATTRIBUTE_SOURCE,
    ATTRIBUTE_STATUS,
    ATTRIBUTE_TOKENS,
    SPAN_SOURCE,
    SPAN_STAGE,
)
from orion_recall.values import SourceReport

_SEARCH = "search"
_TEXT_CHARS = 4000


def describe_recall(served: ServedMessage, tracer: Tracer, *, with_content: bool) -> None:
    """Add the results to the recall's span, and a child span for every stage and source."""
    recalled, span = served.recalled, served.traced.span
    if with_content and served.facts.query is not None:
        span.set_attribute(ATTRIBUTE_QUERY, served.facts.query.fragment[:_TEXT_CHARS])
    if served.outcome == "failed":
        span.set_status(Status(StatusCode.ERROR))
    if recalled is None:
        return
    span.set_attributes(
        {ATTRIBUTE_ITEMS: len(recalled.selection.items), ATTRIBUTE_TOKENS: recalled.selection.tokens}
    )
    if with_content:
        span.set_attribute(ATTRIBUTE_RENDERED, recalled.rendered[:_TEXT_CHARS])
    parent, at_ns = trace.set_span_in_context(span), served.recall_began_ns
    for stage, ms in recalled.stage_ms.items():
        made = _span(tracer, SPAN_STAGE.format(stage), parent, at_ns, ms)
        if stage == _SEARCH:
            below = trace.set_span_in_context(made)
            for report in recalled.reports:
                if report.status != "off":
                    _describe_source(report, tracer, below, at_ns, with_content)
        at_ns += _ns(ms)
        made.end(at_ns)


def _describe_source(
    report: SourceReport, tracer: Tracer, parent: Context, began_ns: int, with_content: bool
) -> None:
    made = _span(tracer, SPAN_SOURCE.format(report.source), parent, began_ns, report.ms)
    made.set_attributes(
        {ATTRIBUTE_SOURCE: report.source, ATTRIBUTE_STATUS: report.status, ATTRIBUTE_HITS: len(report.hits)}
    )
    if report.error is not None:
        # A server may repeat the query in its error; the decision has the text.
        made.set_status(Status(StatusCode.ERROR, report.error if with_content else None))
    made.end(began_ns + _ns(report.ms))


def _span(tracer: Tracer, name: str, parent: Context, began_ns: int, ms: float) -> Span:
    return tracer.start_span(name, parent, attributes={ATTRIBUTE_MS: round(ms, 3)}, start_time=began_ns)


def _ns(ms: float) -> int:
    return round(ms * 1_000_000)
