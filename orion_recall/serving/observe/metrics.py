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
from orion_recall.models.embedder import CountsQueries
from orion_recall.profile.watch import LoadedProfile
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened
from orion_recall.serving.background import BackgroundWork
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
        ended = "Searches of a source, by how they ended"
        self._searches = Tally(meter, t.METRIC_SEARCHES, ended, t.LABEL_SOURCE, t.LABEL_STATUS)
        fallbacks = "Searches that something else answered for the source"
        self._fallbacks = Tally(meter, t.METRIC_FALLBACKS, fallbacks, t.LABEL_SOURCE)
        withheld = "Answers withheld: nothing was asked, or nothing was sure enough"
        self._no_answers = Tally(meter, t.METRIC_NO_ANSWERS, withheld, t.LABEL_PROFILE)
        self._results = Histogram(meter, t.METRIC_RESULTS, "Memories in a bundle", t.LABEL_PROFILE, _RESULTS)
        commit = "From reading a query to its commit"
        self._duration = Histogram(meter, t.METRIC_DURATION, commit, t.LABEL_PROFILE, _SECONDS, "s")
        self._stages = Histogram(meter, t.METRIC_STAGE_DURATION, "Stages of a recall", t.LABEL_STAGE, _SECONDS, "s")
        searches = "Searches of a source"
        self._sources = Histogram(meter, t.METRIC_SOURCE_DURATION, searches, t.LABEL_SOURCE, _SECONDS, "s")

    def record(self, served: ServedMessage) -> None:
        """Record one entry that this worker has answered; a refused commit means that another worker did."""
        if served.commit != "committed":
            return
        profile = served.facts.profile
        self._recalls.add(served.outcome, profile)
        self._duration.record(served.seconds, profile)
        if served.recalled is not None:
            self._record_recall(served.recalled, profile)

    def _record_recall(self, recalled: Recalled, profile: str) -> None:
        for stage, ms in recalled.stage_ms.items():
            self._stages.record(ms / 1000, stage)
        for report in recalled.reports:
            if report.status != "off":
                self._searches.add(report.source, report.status)
                self._sources.record(report.ms / 1000, report.source)
            if report.fallback is not None:
                self._fallbacks.add(report.source)
        if recalled.withheld is not None:
            self._no_answers.add(profile)
        self._results.record(len(recalled.selection.items), profile)


class Tally:
    """A counter by the values of its labels, in order; the meter reads it on export."""

    def __init__(self, meter: Meter, name: str, description: str, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        meter.create_observable_counter(name, [self._observe], description=description)

    def add(self, *values: str) -> None:
        self._counts[values] += 1

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
        self._histogram.record(value, {self._label: of}, _NO_CONTEXT)


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


Readings = Iterable[tuple[float, dict[str, str]]]


class Gauges:
    """Counters and gauges of one service, each read on export."""

    def __init__(self, meter: Meter, running: ObservedService) -> None:
        self._running = running
        channels, queue, clock = running.channels, running.queue, running.clock
        counters: tuple[tuple[str, Callable[[], Readings], str], ...] = (
            (t.METRIC_POISON, lambda: _one(running.worker.counters.poison), "Entries delivered too often"),
            (
                t.METRIC_PUBLISHED,
                lambda: _by(t.LABEL_RESULT, channels.queries.counts),
                "Queries heard on channels, by what became of them",
            ),
            (t.METRIC_DECISIONS, self._decisions, "Decisions, by what became of them"),
            (
                t.METRIC_EXTRACTIONS,
                self._extracted,
                "Memories extracted from in the background, by what became of them",
            ),
            (t.METRIC_EMBEDDING_QUERIES, self._embedded, "Query vectors, by whether the cache had them"),
            (
                t.METRIC_LOST,
                lambda: _by(t.LABEL_STREAM, running.lost),
                "Entries lost with a stream that somebody emptied, about",
            ),
            (
                t.METRIC_TURNED_AWAY,
                lambda: _by(t.LABEL_REASON, {why: queue.turned_away[why] for why in ("no_time", "full")}),
                "Queries refused since there was no time",
            ),
        )
        gauges: tuple[tuple[str, Callable[[], Readings], str, str], ...] = (
            (t.METRIC_WAITING, lambda: _one(len(queue)), "", "Queries that wait for a slot"),
            (
                t.METRIC_SLOTS,
                lambda: _one(queue.slots),
                "",
                "Recalls that may be under way at once; fewer while the processor is short",
            ),
            (
                t.METRIC_UNANSWERED,
                lambda: self._backlogs(lambda one: one.count),
                "",
                "Entries on the bus that no worker has answered",
            ),
            (
                t.METRIC_UNANSWERED_AGE,
                lambda: self._backlogs(lambda one: one.age_s(clock.now())),
                "s",
                "How long the oldest entry that no worker has answered has waited; 0 where there is none",
            ),
            (t.METRIC_MEMORY, _resident_bytes, "By", "Memory of this process, where Linux tells it"),
            (t.METRIC_IN_FLIGHT, lambda: _by(t.LABEL_STREAM, running.in_flight), "", "Entries being worked on"),
            (t.METRIC_DECISIONS_LAG, self._lag, "", "Decisions on the bus that are not in Postgres yet"),
            (t.METRIC_COPY_LAG, self._copy_lag, "", "Outbox positions that a copy does not hold yet"),
            (
                t.METRIC_CLOCK_AHEAD,
                lambda: _one(clock.ahead_s),
                "",
                "Seconds that this machine's clock is ahead of that of the bus; below 0 it is behind",
            ),
            (
                t.METRIC_DISK_FREE,
                lambda: _by(t.LABEL_FOLDER, {one.name: one.free_bytes for one in running.disks}),
                "",
                "Free bytes on the disk of a folder",
            ),
            (
                t.METRIC_DISK_SHORT,
                lambda: _by(t.LABEL_FOLDER, {one.name: int(one.why is not None) for one in running.disks}),
                "",
                "1 while the disk of a folder is short, and it is not written",
            ),
            (
                t.METRIC_BUS_FULL,
                lambda: _one(int(running.is_bus_full)),
                "",
                "1 while the bus refuses callers: its memory is full, or its disk short",
            ),
            (t.METRIC_BREAKER_OPEN, self._breakers, "", "1 while a source is left alone"),
        )
        for name, read, meaning in counters:
            meter.create_observable_counter(name, [_callback(read)], "", meaning)
        for name, read, unit, meaning in gauges:
            meter.create_observable_gauge(name, [_callback(read)], unit, meaning)

    def _backlogs(self, read: Callable[[Backlog], float]) -> Readings:
        return _by(t.LABEL_STREAM, {stream: read(one) for stream, one in self._running.backlogs.items()})

    def _decisions(self) -> Readings:
        if (sink := self._running.background.sink) is not None:
            counts = sink.counts
            names = ("persisted", "repeated", "set_aside", "held")
            yield from _by(t.LABEL_RESULT, {name: getattr(counts, name) for name in names})

    def _extracted(self) -> Readings:
        for part in tuple(self._running.background.extractions):
            counts = part.counts
            for name in ("extracted", "fallen_back", "failed"):
                yield getattr(counts, name), {t.LABEL_EXTRACTOR: part.name, t.LABEL_RESULT: name}

    def _lag(self) -> Readings:
        sink = self._running.background.sink
        if sink is not None and sink.lag is not None:
            yield sink.lag, {}

    def _copy_lag(self) -> Readings:
        for projector in tuple(self._running.background.projectors):
            if (behind := projector.lag) is not None:
                yield behind, {t.LABEL_COPY: projector.kind}

    def _breakers(self) -> Readings:
        sources = self._running.opened.sources
        for name, source in sources.by_name.items():
            is_alone = isinstance(source, SeveralStores) and source.are_left_alone
            yield int(sources.breakers[name].is_open or is_alone), {t.LABEL_SOURCE: name}

    def _embedded(self) -> Readings:
        embedder = self._running.opened.questions
        if isinstance(embedder, CountsQueries):
            yield from _by(t.LABEL_CACHE, {"hit": embedder.cache_hits, "miss": embedder.cache_misses})


def _one(value: float) -> Readings:
    return [(value, {})]


def _by(label: str, values: Mapping[str, float]) -> Readings:
    return [(value, {label: name}) for name, value in values.items()]


def _resident_bytes() -> Readings:
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return
    yield pages * resource.getpagesize(), {}


def _callback(read: Callable[[], Readings]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(value, labels) for value, labels in read()]
