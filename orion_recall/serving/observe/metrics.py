"""Metrics of a worker: counters and histograms of every served entry, and readings of its state on export.

A measurement of the SDK costs some ten microseconds, so only durations are recorded one by one; counts are kept
here. What is read on export is read in the exporting thread: each is one number that is changed in one step.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from orion_recall import telemetry as t
from orion_recall.bus.clock import BusClock
from orion_recall.bus.group_reader import Backlog
from orion_recall.bus.query_channels import QueryChannels
from orion_recall.decisions.sink import DecisionSink
from orion_recall.memory.intake.background import BackgroundExtraction
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.embedder import CountsQueries
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened
from orion_recall.serving.canaries import Canaries
from orion_recall.serving.observe.heartbeat_fields import DiskState
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.serving.worker import ServedMessage, Worker
from orion_recall.settings import Settings
from orion_recall.sources.several_stores import SeveralStores

# From half a millisecond, a stage, to the longest wait for a reply.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
# Given, because looking up the current one costs time, and no measurement here is inside a span.
_NO_CONTEXT = Context()
# Memories in a bundle: none, few, and up to the largest that a query may ask for.
_RESULTS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32, 64, 128)


class Instruments:
    """Counters and histograms of recalls. The label `profile` is one of the loaded profiles."""

    def __init__(self, meter: Meter) -> None:
        self._recalls = Tally(meter, t.METRIC_RECALLS, "Queries answered", t.LABEL_OUTCOME, t.LABEL_PROFILE)
        self._searches = Tally(
            meter,
            t.METRIC_SEARCHES,
            "Searches of a source, by how they ended",
            t.LABEL_SOURCE,
            t.LABEL_STATUS,
        )
        self._items = Tally(meter, t.METRIC_ITEMS, "Memories in bundles", t.LABEL_PROFILE)
        self._fallbacks = Tally(
            meter,
            t.METRIC_FALLBACKS,
            "Searches that something else answered for the source",
            t.LABEL_SOURCE,
        )
        self._no_answers = Tally(
            meter,
            t.METRIC_NO_ANSWERS,
            "Answers withheld: nothing was asked, or nothing was sure enough",
            t.LABEL_PROFILE,
        )
        self._results = Histogram(meter, t.METRIC_RESULTS, "Memories in a bundle", t.LABEL_PROFILE, _RESULTS)
        self._tokens = Tally(meter, t.METRIC_TOKENS, "Tokens of bundles", t.LABEL_PROFILE)
        self._duration = Histogram(
            meter,
            t.METRIC_DURATION,
            "From reading a query to its commit",
            t.LABEL_PROFILE,
            _SECONDS,
            "s",
        )
        self._stages = Histogram(meter, t.METRIC_STAGE_DURATION, "Stages of a recall", t.LABEL_STAGE, _SECONDS, "s")
        self._sources = Histogram(
            meter, t.METRIC_SOURCE_DURATION, "Searches of a source", t.LABEL_SOURCE, _SECONDS, "s"
        )

    def record(self, served: ServedMessage) -> None:
        """Record one entry that this worker has answered; a refused commit means that another worker did."""
        if served.commit != "committed":
            return
        profile = served.facts.profile
        self._recalls.add(1, served.outcome, profile)
        self._duration.record(served.seconds, profile)
        if served.recalled is not None:
            self._record_recall(served.recalled, profile)

    def _record_recall(self, recalled: Recalled, profile: str) -> None:
        for stage, ms in recalled.stage_ms.items():
            self._stages.record(ms / 1000, stage)
        for report in recalled.reports:
            if report.status != "off":
                self._searches.add(1, report.source, report.status)
                self._sources.record(report.ms / 1000, report.source)
            if report.fallback is not None:
                self._fallbacks.add(1, report.source)
        if recalled.withheld is not None:
            self._no_answers.add(1, profile)
        self._results.record(len(recalled.selection.items), profile)
        self._items.add(len(recalled.selection.items), profile)
        self._tokens.add(recalled.selection.tokens, profile)


class Tally:
    """A counter by the values of its labels, in order; the meter reads it on export."""

    def __init__(self, meter: Meter, name: str, description: str, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        meter.create_observable_counter(name, [self._observe], description=description)

    def add(self, count: int, *values: str) -> None:
        self._counts[values] += count

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # A copy in one step: this runs in the exporting thread.
        counts = dict(self._counts)
        return [
            Observation(count, dict(zip(self._labels, values, strict=True))) for values, count in counts.items()
        ]


class Histogram:
    """A histogram by one label."""

    def __init__(
        self, meter: Meter, name: str, description: str, label: str, bounds: Sequence[float], unit: str = ""
    ) -> None:
        self._label = label
        self._histogram = meter.create_histogram(
            name, unit, description, explicit_bucket_boundaries_advisory=bounds
        )

    def record(self, value: float, of: str) -> None:
        """Record one value, for what the label says."""
        self._histogram.record(value, {self._label: of}, _NO_CONTEXT)


_STATM = Path("/proc/self/statm")

Readings = Iterable[tuple[float, dict[str, str]]]
_Metric = tuple[str, Callable[[], Readings], str, str]
"""Name, values with their labels, unit, description."""


class ObservedService(Protocol):
    """The part of a service that is observed."""

    @property
    def settings(self) -> Settings: ...
    @property
    def opened(self) -> Opened: ...
    @property
    def profiles(self) -> Mapping[str, LoadedProfile]: ...
    @property
    def worker(self) -> Worker: ...
    @property
    def channels(self) -> QueryChannels: ...
    @property
    def clock(self) -> BusClock: ...
    @property
    def queue(self) -> QueryQueue: ...
    @property
    def canaries(self) -> Canaries: ...
    @property
    def unpublished(self) -> int: ...
    @property
    def lost(self) -> Mapping[str, int]: ...
    @property
    def disks(self) -> Sequence[DiskState]: ...
    @property
    def is_bus_full(self) -> bool: ...
    @property
    def sink(self) -> DecisionSink | None: ...
    @property
    def projectors(self) -> Sequence[Projector]: ...
    @property
    def extractions(self) -> Sequence[BackgroundExtraction]: ...

    @property
    def backlogs(self) -> Mapping[str, Backlog]: ...

    @property
    def in_flight(self) -> Mapping[str, int]:
        """Entries in flight, by what they bring: queries, stores, …."""
        ...

    @property
    def is_taking(self) -> bool:
        """Whether queries are being taken: not before the bus is there, and not when stopping."""
        ...


class Gauges:
    """Counters and gauges of one service."""

    def __init__(self, meter: Meter, running: ObservedService) -> None:
        self._running = running
        for name, read, unit, told in self._counters():
            meter.create_observable_counter(name, [_callback(read)], unit, told)
        for name, read, unit, told in self._gauges():
            meter.create_observable_gauge(name, [_callback(read)], unit, told)

    def _counters(self) -> Iterable[_Metric]:
        running, counters = self._running, self._running.worker.counters
        yield t.METRIC_FENCED, lambda: [(counters.fenced, {})], "", "Answers that another worker gave"
        yield t.METRIC_POISON, lambda: [(counters.poison, {})], "", "Entries delivered too often"
        ignored = "Fields of queries that were ignored"
        yield t.METRIC_UNKNOWN_FIELDS, lambda: [(counters.unknown_fields, {})], "", ignored
        yield t.METRIC_PUBLISHED, self._published, "", "Queries heard on channels, by what became of them"
        lost = "Subscriptions to query channels that had to be made again"
        yield t.METRIC_SUBSCRIPTIONS_LOST, lambda: [(running.channels.reconnects, {})], "", lost
        closed = "Decisions that a decision channel was closed to"
        yield t.METRIC_UNPUBLISHED, lambda: [(running.unpublished, {})], "", closed
        yield t.METRIC_DECISIONS, self._decisions, "", "Decisions, by what became of them"
        extracted = "Memories extracted from in the background, by what became of them"
        yield t.METRIC_EXTRACTIONS, self._extracted, "", extracted
        yield t.METRIC_EMBEDDING_QUERIES, self._embedded, "", "Query vectors, by whether the cache had them"
        yield t.METRIC_EMBEDDING_BATCHES, self._batches, "", "Batches of queries embedded, by size"
        emptied = "Entries lost with a stream that somebody emptied, about"
        yield t.METRIC_LOST, lambda: _by(t.LABEL_STREAM, running.lost), "", emptied
        yield t.METRIC_TURNED_AWAY, self._turned_away, "", "Queries refused since there was no time"

    def _gauges(self) -> Iterable[_Metric]:
        running = self._running
        yield t.METRIC_WAITING, lambda: [(len(running.queue), {})], "", "Queries that wait for a slot"
        slots = "Recalls that may be under way at once; fewer while the processor is short"
        yield t.METRIC_SLOTS, lambda: [(running.queue.slots, {})], "", slots
        unanswered = "Entries on the bus that no worker has answered"
        yield t.METRIC_UNANSWERED, lambda: self._backlogs(lambda one: one.count), "", unanswered
        age = "How long the oldest entry that no worker has answered has waited; 0 where there is none"
        yield t.METRIC_UNANSWERED_AGE, lambda: self._backlogs(lambda one: one.age_s(running.clock.now())), "s", age
        yield t.METRIC_MEMORY, _resident_bytes, "By", "Memory of this process, where Linux tells it"
        yield t.METRIC_IN_FLIGHT, lambda: _by(t.LABEL_STREAM, running.in_flight), "", "Entries being worked on"
        yield t.METRIC_DECISIONS_LAG, self._lag, "", "Decisions on the bus that are not in Postgres yet"
        yield t.METRIC_COPY_LAG, self._copy_lag, "", "Outbox positions that a copy does not hold yet"
        ahead = "Seconds that this machine's clock is ahead of that of the bus; below 0 it is behind"
        yield t.METRIC_CLOCK_AHEAD, lambda: [(running.clock.ahead_s, {})], "", ahead
        free = "Free bytes on the disk of a folder"
        yield t.METRIC_DISK_FREE, lambda: self._disks(lambda one: one.free_bytes), "", free
        short = "1 while the disk of a folder is short, and it is not written"
        yield t.METRIC_DISK_SHORT, lambda: self._disks(lambda one: one.why is not None), "", short
        full = "1 while the bus refuses callers: its memory is full, or its disk short"
        yield t.METRIC_BUS_FULL, lambda: [(int(running.is_bus_full), {})], "", full
        share = "The share of the sessions that a canary answers; 0 once it was taken back"
        yield t.METRIC_CANARY_SHARE, self._canary_shares, "", share
        taken = "1 where a canary was taken back by its gates"
        yield t.METRIC_CANARY_TAKEN_BACK, self._canaries_taken_back, "", taken
        yield t.METRIC_BREAKER_OPEN, self._breakers, "", "1 while a source is left alone"

    def _backlogs(self, read: Callable[[Backlog], float]) -> Readings:
        return _by(t.LABEL_STREAM, {stream: read(one) for stream, one in self._running.backlogs.items()})

    def _disks(self, read: Callable[[DiskState], float]) -> Readings:
        return _by(t.LABEL_FOLDER, {one.name: int(read(one)) for one in self._running.disks})

    def _canary_shares(self) -> Readings:
        for one in self._running.canaries.trials:
            yield one.share, {t.LABEL_PROFILE: one.profile, t.LABEL_CANARY: one.canary}

    def _canaries_taken_back(self) -> Readings:
        for one in self._running.canaries.trials:
            yield (
                int(one.shared.taken_back is not None),
                {t.LABEL_PROFILE: one.profile, t.LABEL_CANARY: one.canary},
            )

    def _turned_away(self) -> Readings:
        counts = self._running.queue.turned_away
        return [(counts[reason], {t.LABEL_REASON: reason}) for reason in ("no_time", "full")]

    def _decisions(self) -> Readings:
        if (sink := self._running.sink) is not None:
            counts = sink.counts
            yield counts.persisted, {t.LABEL_RESULT: "persisted"}
            yield counts.repeated, {t.LABEL_RESULT: "repeated"}
            yield counts.set_aside, {t.LABEL_RESULT: "set_aside"}
            yield counts.held, {t.LABEL_RESULT: "held"}

    def _published(self) -> Readings:
        counts = self._running.channels.queries.counts
        yield counts.received, {t.LABEL_RESULT: "received"}
        yield counts.entered, {t.LABEL_RESULT: "entered"}
        yield counts.duplicates, {t.LABEL_RESULT: "duplicate"}
        yield counts.dropped, {t.LABEL_RESULT: "dropped"}

    def _extracted(self) -> Readings:
        for part in tuple(self._running.extractions):
            counts = part.counts
            yield counts.extracted, {t.LABEL_EXTRACTOR: part.name, t.LABEL_RESULT: "extracted"}
            yield counts.fallen_back, {t.LABEL_EXTRACTOR: part.name, t.LABEL_RESULT: "fallen_back"}
            yield counts.failed, {t.LABEL_EXTRACTOR: part.name, t.LABEL_RESULT: "failed"}

    def _lag(self) -> Readings:
        sink = self._running.sink
        if sink is not None and sink.lag is not None:
            yield sink.lag, {}

    def _copy_lag(self) -> Readings:
        for projector in tuple(self._running.projectors):
            if (behind := projector.lag) is not None:
                yield behind, {t.LABEL_COPY: projector.kind}

    def _breakers(self) -> Readings:
        sources = self._running.opened.sources
        for name in sources.by_name:
            source = sources.by_name[name]
            is_open = sources.breakers[name].is_open or (
                isinstance(source, SeveralStores) and source.are_left_alone
            )
            yield int(is_open), {t.LABEL_SOURCE: name}

    def _embedded(self) -> Readings:
        embedder = self._running.opened.questions
        if isinstance(embedder, CountsQueries):
            yield embedder.cache_hits, {t.LABEL_CACHE: "hit"}
            yield embedder.cache_misses, {t.LABEL_CACHE: "miss"}

    def _batches(self) -> Readings:
        embedder = self._running.opened.questions
        if isinstance(embedder, CountsQueries):
            for size, count in enumerate(embedder.batches, start=1):
                yield count, {t.LABEL_SIZE: str(size)}


def _by(label: str, values: Mapping[str, float]) -> Readings:
    return [(value, {label: name}) for name, value in values.items()]


def _resident_bytes() -> Readings:
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
    except OSError:
        return
    yield pages * resource.getpagesize(), {}


def _callback(read: Callable[[], Readings]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, labels) for value, labels in read()]

    return observed
