"""Names of all spans, metrics, attributes and logs; trace propagation; log formats.

Memory and query text enter none of them unless content capture is on. Metrics have only labels of few values: no
tenant, no id, no text.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, Tracer, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

SPAN_RECALL = "recall"
SPAN_STAGE = "recall.{}"
SPAN_SOURCE = "recall.source.{}"

ATTRIBUTE_OUTCOME = "orion.recall.outcome"
ATTRIBUTE_PROFILE = "orion.recall.profile"
ATTRIBUTE_TENANT = "orion.recall.tenant"
ATTRIBUTE_COMMIT = "orion.recall.commit"
ATTRIBUTE_SOURCE = "orion.recall.source"
ATTRIBUTE_STATUS = "orion.recall.status"
ATTRIBUTE_HITS = "orion.recall.hits"
ATTRIBUTE_MS = "orion.recall.ms"
ATTRIBUTE_ITEMS = "orion.recall.items"
ATTRIBUTE_TOKENS = "orion.recall.tokens"
# OpenTelemetry's names for memory and retrieval, which its package does not have yet, and OpenInference's kind of a
# span: Langfuse, Phoenix and Jaeger show a recall by them.
ATTRIBUTE_OPERATION = "gen_ai.operation.name"
ATTRIBUTE_RECORDS = "gen_ai.memory.record.count"
ATTRIBUTE_MEMORY_STORE = "gen_ai.memory.store.id"
ATTRIBUTE_CONVERSATION = "gen_ai.conversation.id"
ATTRIBUTE_DATA_SOURCE = "gen_ai.data_source.id"
ATTRIBUTE_SPAN_KIND = "openinference.span.kind"
# Only with content capture:
ATTRIBUTE_QUERY = "orion.recall.query"
ATTRIBUTE_RENDERED = "orion.recall.rendered"
ATTRIBUTE_INPUT = "input.value"

OPERATION_SEARCH, OPERATION_RETRIEVAL = "search_memory", "retrieval"
# By the name of the message's span. Feedback is about an answer, and has none.
OPERATIONS_OF_MESSAGES: Mapping[str, str] = {
    "store": "create_memory",
    "update": "update_memory",
    "delete": "delete_memory",
}
SPAN_KIND_RETRIEVER, SPAN_KIND_CHAIN = "RETRIEVER", "CHAIN"

LOG_WORKER = "orion_recall.serving.worker"

RESOURCE = Resource.create({"service.name": "orion-recall"})
INSTRUMENTATION = "orion_recall"

_PROPAGATOR = TraceContextTextMapPropagator()
_W3C = ("traceparent", "tracestate")
_IDS = RandomIdGenerator()
_NO_TRACE = Context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """A continued trace: the span, the trace id, and the trace object of messages that follow.

    `trace` is the sender's object, whole, with the W3C trace context of the span where the sender had one or spans
    are recorded.
    """

    span: Span
    trace: Mapping[str, Any]
    trace_id: str


def span_of(kind: str) -> str:
    """The span name for a kind of message: `store` for `memory.store.v1`."""
    return kind.split(".")[1]


def continue_trace(
    carrier: Mapping[str, Any] | None, *, tracer: Tracer | None = None, name: str = SPAN_RECALL
) -> Continued:
    """A span under the W3C trace context of a message, or the first span of a new trace.

    https://www.w3.org/TR/trace-context/ - an invalid `traceparent` begins a new trace. Without a tracer nothing is
    recorded: the span only has ids to propagate.
    """
    told, context = carrier or {}, _NO_TRACE
    goes_on = tracer is not None or "traceparent" in told  # else the ids are for our own log
    if goes_on:
        context = _PROPAGATOR.extract({name: value for name, value in told.items() if isinstance(value, str)})
    span = tracer.start_span(name, context) if tracer is not None else _unrecorded(context)
    if goes_on:
        onwards: dict[str, str] = {}
        _PROPAGATOR.inject(onwards, context=trace.set_span_in_context(span))
        told = {name: value for name, value in told.items() if name not in _W3C} | onwards
    return Continued(span=span, trace=told, trace_id=format_trace_id(span.get_span_context().trace_id))


def _unrecorded(context: Context) -> Span:
    parent = trace.get_current_span(context).get_span_context()
    return NonRecordingSpan(
        SpanContext(
            parent.trace_id if parent.is_valid else _IDS.generate_trace_id(),
            _IDS.generate_span_id(),
            is_remote=False,
            trace_flags=parent.trace_flags if parent.is_valid else TraceFlags(TraceFlags.SAMPLED),
            trace_state=parent.trace_state,
        )
    )


class JsonLines(logging.Formatter):
    """Log records as one JSON object a line, with the fields of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Log records as one line each for a terminal: local time, level where it is not info, message, fields.

    What a field holds is printed without control characters: it may come from a message.
    """

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields: dict[str, object] = getattr(record, "fields", {})
        told = [f"{name}={_shown(value)}" for name, value in fields.items() if value not in (None, "", [])]
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = "  ".join([f"{clock} {level}{_printable(record.getMessage())}", *told])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return _printable(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def log_to_stderr(level: str) -> None:
    """Logs of this program on standard error, as text on a terminal and as JSON lines elsewhere.

    Standard output belongs to results. OpenTelemetry's own logs go with ours from warnings on: they tell of a
    collector that is away.
    """
    # No line tells its thread or process: each record would ask for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if sys.stderr.isatty() else JsonLines())
    for name, lowest in (("orion_recall", level.upper()), ("opentelemetry", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
