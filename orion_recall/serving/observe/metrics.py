"""Metrics of a worker: counters and histograms of every served entry, readings of its state on export, and spans.

A measurement of the SDK costs some ten microseconds, so only durations are recorded one by one; counts are kept
here. What is read on export is read in the exporting thread: each is one number that is changed in one step. Spans
are made afterwards from a recall's measured times: its stages one after another, its sources in the stage `search`.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from orion_recall import telemetry as t
from orion_recall.bus.group_reader import Backlog, BusClock
from orion_recall.bus.query_channels import QueryChannels
from orion_recall.errors import SettingsError, install_hint
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.serving.backends import Opened
from orion_recall.serving.background import BackgroundWork
from orion_recall.serving.observe.heartbeat_fields import DiskState
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.serving.worker import QueryAnswer, QueryRequest, Worker
from orion_recall.settings import Settings
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.text.normal import storable
from orion_recall.values import SourceReport

# From half a millisecond, a stage, to the longest wait for a reply.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
# Memories in a bundle: none, few, and up to the largest that a query may ask for.
_RESULTS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32, 64, 128)
# Given, because looking up the current one costs time, and no measurement here is inside a span.
_NO_CONTEXT = Context()
_PREFIX = "orion.recall."

Readings = Iterable[tuple[float, dict[str, str]]]


class Instruments:
    """Counters and histograms of recalls. The label `profile` is one of the loaded profiles."""

    def __init__(self, meter: Meter) -> None:
        def tally(name: str, meaning: str, *labels: str) -> Counter[tuple[str, ...]]:
            counts = Counter[tuple[str, ...]]()
            # A copy in one step: this runs in the exporting thread.
            _observe(
                meter.create_observable_counter,
                *(name, meaning),
                lambda: [(count, dict(zip(labels, of, strict=True))) for of, count in counts.copy().items()],
            )
            return counts

        def histogram(name: str, meaning: str, bounds: Sequence[float], unit: str = "") -> Histogram:
            return meter.create_histogram(
                f"{_PREFIX}{name}", unit, meaning, explicit_bucket_boundaries_advisory=bounds
            )

        self._recalls = tally("recalls", "Queries answered", "outcome", "profile")
        self._searches = tally("source.searches", "Searches of a source, by how they ended", "source", "status")
        self._fallbacks = tally("fallbacks", "Searches that something else answered for the source", "source")
        withheld = "Answers withheld: nothing was asked, or nothing was sure enough"
        self._no_answers = tally("no_answers", withheld, "profile")
        self._results = histogram("results", "Memories in a bundle", _RESULTS)
        self._duration = histogram("duration", "From reading a query to its commit", _SECONDS, "s")
        self._stages = histogram("stage.duration", "Stages of a recall", _SECONDS, "s")
        self._sources = histogram("source.duration", "Searches of a source", _SECONDS, "s")

    def record(self, answered: QueryRequest) -> None:
        """Record one entry that this worker has answered."""
        recalled, profile = answered.answer.recalled, answered.facts.profile
        self._recalls[answered.answer.outcome, profile] += 1
        self._duration.record(answered.delivery.elapsed_s, {"profile": profile}, _NO_CONTEXT)
        if recalled is None:
            return
        for stage, ms in recalled.stage_ms.items():
            self._stages.record(ms / 1000, {"stage": stage}, _NO_CONTEXT)
        for report in recalled.reports:
            if report.status != "off":
                self._searches[report.source, report.status] += 1
                self._sources.record(report.ms / 1000, {"source": report.source}, _NO_CONTEXT)
            if report.fallback is not None:
                self._fallbacks[(report.source,)] += 1
        if recalled.withheld is not None:
            self._no_answers[(profile,)] += 1
        self._results.record(len(recalled.selection.items), {"profile": profile}, _NO_CONTEXT)


class ObservedService(Protocol):
    """The part of a service that is observed. `is_taking`: not before the bus is there, and not when stopping."""

    settings: Settings
    opened: Opened
    worker: Worker
    channels: QueryChannels
    clock: BusClock
    queue: QueryQueue
    background: BackgroundWork
    is_taking: bool

    @property
    def profiles(self) -> Mapping[str, LoadedProfile]: ...
    @property
    def lost(self) -> Mapping[str, int]: ...
    @property
    def disks(self) -> Sequence[DiskState]: ...
    @property
    def is_bus_full(self) -> bool: ...
    @property
    def backlogs(self) -> Mapping[str, Backlog]: ...
    @property
    def in_flight(self) -> Mapping[str, int]: ...


def add_gauges(meter: Meter, running: ObservedService) -> None:
    """Counters and gauges of one service, each read on export."""
    opened, background = running.opened, running.background
    count, gauge = meter.create_observable_counter, meter.create_observable_gauge

    def backlogs(read: Callable[[Backlog], float]) -> Readings:
        return _by("stream", {stream: read(one) for stream, one in running.backlogs.items()})

    def decisions() -> Readings:
        if (sink := background.sink) is None:
            return ()
        names = ("persisted", "repeated", "set_aside", "held")
        return _by("result", {name: sink.counts[name] for name in names})

    def extracted() -> Readings:
        for part in tuple(background.extractions):
            for name in ("extracted", "fallen_back", "failed"):
                yield getattr(part.counts, name), {"extractor": part.name, "result": name}

    def embedded() -> Readings:
        if isinstance(opened.embedder, OnnxEmbedder):
            yield opened.embedder.queries.cache_hits, {"cache": "hit"}
            yield opened.embedder.queries.cache_misses, {"cache": "miss"}

    def copy_lag() -> Readings:
        lags = {one.kind: one.lag for one in tuple(background.projectors)}
        return _by("copy", {kind: behind for kind, behind in lags.items() if behind is not None})

    def drift() -> Readings:
        return _by("copy", {one.kind: one.drifted for one in tuple(background.projectors)})

    def breakers() -> Readings:
        for name, source in opened.sources.by_name.items():
            is_alone = isinstance(source, SeveralStores) and source.are_left_alone
            yield int(opened.sources.breakers[name].is_open or is_alone), {"source": name}

    def disks(read: Callable[[DiskState], float]) -> Readings:
        return _by("folder", {one.name: read(one) for one in running.disks})

    for make, name, unit, meaning, read in (
        (count, "poison", "", "Entries delivered too often", lambda: _one(running.worker.counts["poison"])),
        (count, "published", "", "Queries heard on channels, by what became of them",
         lambda: _by("result", running.channels.queries.counts)),
        (count, "decisions", "", "Decisions, by what became of them", decisions),
        (count, "extractions", "", "Memories extracted from in the background, by what became of them", extracted),
        (count, "embedding.queries", "", "Query vectors, by whether the cache had them", embedded),
        (count, "bus.lost", "", "Entries lost with a stream that somebody emptied, about",
         lambda: _by("stream", running.lost)),
        (count, "projection.drift", "",
         "Memories in which a copy differed from the record, whenever the two were compared", drift),
        (count, "turned_away", "", "Queries refused since there was no time",
         lambda: _by("reason", {why: running.queue.turned_away[why] for why in ("no_time", "full")})),
        (gauge, "waiting", "", "Queries that wait for a slot", lambda: _one(len(running.queue))),
        (gauge, "slots", "", "Recalls that may be under way at once; fewer while the processor is short",
         lambda: _one(running.queue.slots)),
        (gauge, "unanswered", "", "Entries on the bus that no worker has answered",
         lambda: backlogs(lambda one: one.count)),
        (gauge, "unanswered.age", "s",
         "How long the oldest entry that no worker has answered has waited; 0 where there is none",
         lambda: backlogs(lambda one: one.age_s(running.clock.now()))),
        (gauge, "process.memory", "By", "Memory of this process, where Linux tells it", _resident_bytes),
        (gauge, "in_hand", "", "Entries being worked on", lambda: _by("stream", running.in_flight)),
        (gauge, "decisions.lag", "", "Decisions on the bus that are not in Postgres yet",
         lambda: () if (sink := background.sink) is None or sink.lag is None else _one(sink.lag)),
        (gauge, "projection.behind", "", "Outbox positions that a copy does not hold yet", copy_lag),
        (gauge, "clock.ahead", "",
         "Seconds that this machine's clock is ahead of that of the bus; below 0 it is behind",
         lambda: _one(running.clock.ahead_s)),
        (gauge, "disk.free", "", "Free bytes on the disk of a folder", lambda: disks(lambda one: one.free_bytes)),
        (gauge, "disk.short", "", "1 while the disk of a folder is short, and it is not written",
         lambda: disks(lambda one: int(one.why is not None))),
        (gauge, "bus.full", "", "1 while the bus refuses callers: its memory is full, or its disk short",
         lambda: _one(int(running.is_bus_full))),
        (gauge, "source.breaker.open", "", "1 while a source is left alone", breakers),
    ):  # fmt: skip
        _observe(make, name, meaning, read, unit)


def _observe(
    make: Callable[..., object], name: str, meaning: str, read: Callable[[], Readings], unit: str = ""
) -> None:
    def observations(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, labels) for value, labels in read()]

    make(f"{_PREFIX}{name}", [observations], unit, meaning)


def _one(value: float) -> Readings:
    return [(value, {})]


def _by(label: str, values: Mapping[str, float]) -> Readings:
    return [(value, {label: name}) for name, value in values.items()]


def _resident_bytes() -> Readings:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return ()
    return _one(pages * resource.getpagesize())


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
