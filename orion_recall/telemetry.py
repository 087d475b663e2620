"""Every span, attribute and log name, and how a trace that came with a message goes on.

Memory and query text enter none of them unless content capture is switched on.
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
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

SPAN_RECALL = "recall"
ATTRIBUTE_OUTCOME = "orion.recall.outcome"
ATTRIBUTE_PROFILE = "orion.recall.profile"
ATTRIBUTE_TENANT = "orion.recall.tenant"

LOG_WORKER = "orion_recall.worker"

_PROPAGATOR = TraceContextTextMapPropagator()
_PROVIDER = TracerProvider(resource=Resource.create({"service.name": "orion-recall"}))
_TRACER = _PROVIDER.get_tracer("orion_recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """One step of a trace: the span, what the next one is given, and the trace's id."""

    span: Span
    carrier: Mapping[str, str]
    trace_id: str


def continue_trace(carrier: Mapping[str, Any] | None) -> Continued:
    """A span under the W3C trace context that came with a message, or the first of a new trace.

    https://www.w3.org/TR/trace-context/ - a broken `traceparent` begins a new trace.
    """
    given = {str(name): value for name, value in (carrier or {}).items() if isinstance(value, str)}
    span = _TRACER.start_span(SPAN_RECALL, context=_PROPAGATOR.extract(given))
    onwards: dict[str, str] = {}
    _PROPAGATOR.inject(onwards, context=trace.set_span_in_context(span))
    return Continued(span=span, carrier=onwards, trace_id=format_trace_id(span.get_span_context().trace_id))


class JsonLines(logging.Formatter):
    """Log records as one JSON object a line; fields given as `extra={"fields": {...}}` stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
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


def log_to_stderr(level: str) -> None:
    """Structured logs of this program on standard error; standard output belongs to results."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("orion_recall")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
