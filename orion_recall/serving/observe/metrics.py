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
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

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
_PREFIX = "orion.recall."
# Memories in a bundle: none, few, and up to the largest that a query may ask for.
_RESULTS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32, 64, 128)


class Instruments:
    """Counters and histograms of recalls. The label `profile` is one of the loaded profiles."""

    def __init__(self, meter: Meter) -> None:
        self._recalls = _Tally(meter, "recalls", "Queries answered", "outcome", "profile")
        searches = "Searches of a source, by how they ended"
        self._searches = _Tally(meter, "source.searches", searches, "source", "status")
        fallbacks = "Searches that something else answered for the source"
        self._fallbacks = _Tally(meter, "fallbacks", fallbacks, "source")
        withheld = "Answers withheld: nothing was asked, or nothing was sure enough"
        self._no_answers = _Tally(meter, "no_answers", withheld, "profile")

        def histogram(name: str, meaning: str, bounds: Sequence[float], unit: str = "") -> Histogram:
            return meter.create_histogram(
                f"{_PREFIX}{name}", unit, meaning, explicit_bucket_boundaries_advisory=bounds
            )

        self._results = histogram("results", "Memories in a bundle", _RESULTS)
        self._duration = histogram("duration", "From reading a query to its commit", _SECONDS, "s")
        self._stages = histogram("stage.duration", "Stages of a recall", _SECONDS, "s")
        self._sources = histogram("source.duration", "Searches of a source", _SECONDS, "s")

    def record(self, served: ServedMessage) -> None:
        """Record one entry that this worker has answered; a refused commit means that another worker did."""
        if served.commit != "committed":
            return
        profile = served.facts.profile
        self._recalls.add(served.outcome, profile)
        self._duration.record(served.seconds, {"profile": profile}, _NO_CONTEXT)
        if served.recalled is not None:
            self._record_recall(served.recalled, profile)

    def _record_recall(self, recalled: Recalled, profile: str) -> None:
        for stage, ms in recalled.stage_ms.items():
            self._stages.record(ms / 1000, {"stage": stage}, _NO_CONTEXT)
        for report in recalled.reports:
            if report.status != "off":
                self._searches.add(report.source, report.status)
                self._sources.record(report.ms / 1000, {"source": report.source}, _NO_CONTEXT)
            if report.fallback is not None:
                self._fallbacks.add(report.source)
        if recalled.withheld is not None:
            self._no_answers.add(profile)
        self._results.record(len(recalled.selection.items), {"profile": profile}, _NO_CONTEXT)


class _Tally:
    """A counter by the values of its labels, in order; the meter reads it on export."""

    def __init__(self, meter: Meter, name: str, description: str, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        meter.create_observable_counter(f"{_PREFIX}{name}", [self._observe], description=description)

    def add(self, *values: str) -> None:
        self._counts[values] += 1

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # A copy in one step: this runs in the exporting thread.
        counts = dict(self._counts)
        return [
            Observation(count, dict(zip(self._labels, values, strict=True))) for values, count in counts.items()
        ]


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

        def count(name: str, meaning: str, read: Callable[[], Readings]) -> None:
            meter.create_observable_counter(f"{_PREFIX}{name}", [_callback(read)], "", meaning)

        def gauge(name: str, meaning: str, read: Callable[[], Readings], unit: str = "") -> None:
            meter.create_observable_gauge(f"{_PREFIX}{name}", [_callback(read)], unit, meaning)

        count("poison", "Entries delivered too often", lambda: _one(running.worker.counters.poison))
        heard = "Queries heard on channels, by what became of them"
        count("published", heard, lambda: _by("result", channels.queries.counts))
        count("decisions", "Decisions, by what became of them", self._decisions)
        extracted = "Memories extracted from in the background, by what became of them"
        count("extractions", extracted, self._extracted)
        count("embedding.queries", "Query vectors, by whether the cache had them", self._embedded)
        lost = "Entries lost with a stream that somebody emptied, about"
        count("bus.lost", lost, lambda: _by("stream", running.lost))
        whys = ("no_time", "full")
        refused = "Queries refused since there was no time"
        count("turned_away", refused, lambda: _by("reason", {why: queue.turned_away[why] for why in whys}))

        gauge("waiting", "Queries that wait for a slot", lambda: _one(len(queue)))
        slots = "Recalls that may be under way at once; fewer while the processor is short"
        gauge("slots", slots, lambda: _one(queue.slots))
        unanswered = "Entries on the bus that no worker has answered"
        gauge("unanswered", unanswered, lambda: self._backlogs(lambda one: one.count))
        age = "How long the oldest entry that no worker has answered has waited; 0 where there is none"
        gauge("unanswered.age", age, lambda: self._backlogs(lambda one: one.age_s(clock.now())), "s")
        gauge("process.memory", "Memory of this process, where Linux tells it", _resident_bytes, "By")
        gauge("in_hand", "Entries being worked on", lambda: _by("stream", running.in_flight))
        gauge("decisions.lag", "Decisions on the bus that are not in Postgres yet", self._lag)
        gauge("projection.behind", "Outbox positions that a copy does not hold yet", self._copy_lag)
        ahead = "Seconds that this machine's clock is ahead of that of the bus; below 0 it is behind"
        gauge("clock.ahead", ahead, lambda: _one(clock.ahead_s))
        free = "Free bytes on the disk of a folder"
        gauge("disk.free", free, lambda: _by("folder", {one.name: one.free_bytes for one in running.disks}))
        short = "1 while the disk of a folder is short, and it is not written"
        gauge(
            "disk.short",
            short,
            lambda: _by("folder", {one.name: int(one.why is not None) for one in running.disks}),
        )
        full = "1 while the bus refuses callers: its memory is full, or its disk short"
        gauge("bus.full", full, lambda: _one(int(running.is_bus_full)))
        gauge("source.breaker.open", "1 while a source is left alone", self._breakers)

    def _backlogs(self, read: Callable[[Backlog], float]) -> Readings:
        return _by("stream", {stream: read(one) for stream, one in self._running.backlogs.items()})

    def _decisions(self) -> Readings:
        if (sink := self._running.background.sink) is not None:
            counts = sink.counts
            names = ("persisted", "repeated", "set_aside", "held")
            yield from _by("result", {name: getattr(counts, name) for name in names})

    def _extracted(self) -> Readings:
        for part in tuple(self._running.background.extractions):
            counts = part.counts
            for name in ("extracted", "fallen_back", "failed"):
                yield getattr(counts, name), {"extractor": part.name, "result": name}

    def _lag(self) -> Readings:
        sink = self._running.background.sink
        if sink is not None and sink.lag is not None:
            yield sink.lag, {}

    def _copy_lag(self) -> Readings:
        for projector in tuple(self._running.background.projectors):
            if (behind := projector.lag) is not None:
                yield behind, {"copy": projector.kind}

    def _breakers(self) -> Readings:
        sources = self._running.opened.sources
        for name, source in sources.by_name.items():
            is_alone = isinstance(source, SeveralStores) and source.are_left_alone
            yield int(sources.breakers[name].is_open or is_alone), {"source": name}

    def _embedded(self) -> Readings:
        embedder = self._running.opened.embedder
        if isinstance(embedder, CountsQueries):
            yield from _by("cache", {"hit": embedder.cache_hits, "miss": embedder.cache_misses})


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
