"""The reference page of metrics, spans and attributes, made from the instruments themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import MagicMock

from opentelemetry.metrics import Meter

from orion_recall import telemetry
from orion_recall.serving.observe.metrics import Instruments, ObservedService, add_gauges

_INTRODUCTION = """\
# Metrics and spans

`ORION_HEALTH_PORT` opens a small HTTP port with `/live`, `/ready` and `/metrics` (Prometheus). Traces go to
`OTEL_EXPORTER_OTLP_ENDPOINT` when it is set (extra `otlp`). No metric carries a tenant, an id or a text.

## Metrics

Each with its name in Prometheus, its kind and its labels.

"""
# Labels are given where a metric is counted, not where it is made. A test compares this list with a running worker.
_LABELS = {
    "orion.recall.bus.lost": "stream: queries, stores, updates, deletes, feedback, decisions",
    "orion.recall.decisions": "result: persisted, repeated, set_aside, held",
    "orion.recall.disk.free": "folder: index, graph, valkey, postgres",
    "orion.recall.disk.short": "folder: index, graph, valkey, postgres",
    "orion.recall.duration": "profile",
    "orion.recall.embedding.queries": "cache: hit, miss",
    "orion.recall.extractions": "extractor; result: extracted, fallen_back, failed",
    "orion.recall.fallbacks": "source",
    "orion.recall.in_hand": "stream: queries, stores, updates, deletes, feedback",
    "orion.recall.no_answers": "profile",
    "orion.recall.projection.behind": "copy: index, graph",
    "orion.recall.projection.drift": "copy: index, graph",
    "orion.recall.published": "result: received, entered, duplicate, dropped",
    "orion.recall.recalls": "outcome; profile",
    "orion.recall.results": "profile",
    "orion.recall.source.breaker.open": "source",
    "orion.recall.source.duration": "source",
    "orion.recall.source.searches": "source; status",
    "orion.recall.stage.duration": "stage: understand, search, fuse, fetch, follow, rank, select",
    "orion.recall.turned_away": "reason: no_time, full",
    "orion.recall.unanswered": "stream: queries, stores, updates, deletes, feedback",
    "orion.recall.unanswered.age": "stream: queries, stores, updates, deletes, feedback",
}
_CLOSING = """\
`orion.recall.query`, `orion.recall.rendered` and `input.value` are there only with `ORION_CONTENT_CAPTURE=true`, of
each text 4,000 characters at most.

Names that begin with `gen_ai.` are OpenTelemetry's for memory and retrieval; `openinference.span.kind` is
OpenInference's. Readers such as Langfuse, Phoenix and Jaeger go by these attributes, not by the names
of spans. The operation of a recall is `search_memory`, of a source `retrieval`, of the spans `store`, `update` and
`delete` it is `create_memory`, `update_memory` and `delete_memory`. `gen_ai.memory.store.id` is the tenant,
`gen_ai.conversation.id` the session, `gen_ai.memory.record.count` the number found, stored, updated or deleted.
"""


@dataclass(slots=True)
class _Listing:
    """A meter that only lists what is made on it: name, kind, description."""

    made: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def create_observable_counter(self, name: str, callbacks: Any, unit: str = "", description: str = "") -> None:
        self.made.append((name, "counter", description))

    def create_observable_gauge(self, name: str, callbacks: Any, unit: str = "", description: str = "") -> None:
        self.made.append((name, f"gauge, {unit}" if unit else "gauge", description))

    def create_histogram(self, name: str, unit: str = "", description: str = "", **_: Any) -> MagicMock:
        self.made.append((name, f"histogram, {unit}" if unit else "histogram", description))
        return MagicMock()


def metrics_page() -> str:
    """All metrics, spans and attributes as Markdown."""
    rows = list[str]()
    for name, kind, meaning in sorted(_metrics()):
        labels = f"; {_LABELS[name]}" if name in _LABELS else ""
        rows.append(f"- `{name}` (`{_in_prometheus(name, kind)}`, {kind}{labels}): {meaning}")
    lines = [_INTRODUCTION + "\n".join(rows), "", "## Spans", "", "| span | meaning |", "|---|---|"]
    lines += [
        f"| `{telemetry.SPAN_RECALL}` | one query, from reading it to its commit |",
        f"| `{telemetry.SPAN_STAGE.format('STAGE')}` | one stage of it |",
        f"| `{telemetry.SPAN_SOURCE.format('SOURCE')}` | one search of a source |",
        "| `store`, `update`, `delete`, `feedback` | one message of that kind, from reading it to its receipt |",
        "",
        "## Attributes of spans",
        "",
        *(f"- `{name}`" for name in _attributes()),
        "",
        _CLOSING,
    ]
    return "\n".join(lines)


def _in_prometheus(name: str, kind: str) -> str:
    what, _, unit = kind.partition(", ")
    ending = {"s": "_seconds", "By": "_bytes"}.get(unit, "") + ("_total" if what == "counter" else "")
    return name.replace(".", "_") + ending


def prometheus_names() -> dict[str, frozenset[str]]:
    """Every series that a worker shows to Prometheus, with its labels. A histogram is three of them."""
    found: dict[str, frozenset[str]] = {}
    for name, kind, _ in _metrics():
        shown = _in_prometheus(name, kind)
        labels = frozenset(one.partition(":")[0].strip() for one in _LABELS.get(name, "").split(";")) - {""}
        if kind.startswith("histogram"):
            found |= {f"{shown}_bucket": labels | {"le"}, f"{shown}_sum": labels, f"{shown}_count": labels}
        else:
            found[shown] = labels
    return found


def _metrics() -> Sequence[tuple[str, str, str]]:
    listing = _Listing()
    Instruments(cast("Meter", listing))
    add_gauges(cast("Meter", listing), cast("ObservedService", MagicMock()))
    return listing.made


def _attributes() -> list[str]:
    names = (value for name, value in vars(telemetry).items() if name.startswith("ATTRIBUTE_"))
    return sorted(name.format("N") for name in names)
