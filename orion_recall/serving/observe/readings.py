"""Metrics that are read from a running worker on export only.

They are read in the exporting thread: each is one number that the worker changes in one step.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from orion_recall.bus.clock import BusClock
from orion_recall.bus.group_reader import Backlog
from orion_recall.bus.query_channels import QueryChannels
from orion_recall.decisions.sink import DecisionSink
from orion_recall.memory.background.extraction import BackgroundExtraction
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.embedder import CountsQueries
from orion_recall.profile.watch import LoadedProfile
from orion_recall.serving.backends import Opened
from orion_recall.serving.canaries import Canaries
from orion_recall.serving.observe.heartbeat_fields import DiskState
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.serving.worker import Worker
from orion_recall.settings import Settings
from orion_recall.sources.several_stores import SeveralStores
from orion_recall.telemetry import (
    LABEL_CACHE,
    LABEL_CANARY,
    LABEL_COPY,
    LABEL_EXTRACTOR,
    LABEL_FOLDER,
    LABEL_PROFILE,
    LABEL_REASON,
    LABEL_RESULT,
    LABEL_SIZE,
    LABEL_SOURCE,
    LABEL_STREAM,
    METRIC_BREAKER_OPEN,
    METRIC_BUS_FULL,
    METRIC_CANARY_SHARE,
    METRIC_CANARY_TAKEN_BACK,
    METRIC_CLOCK_AHEAD,
    METRIC_COPY_LAG,
    METRIC_DECISIONS,
    METRIC_DECISIONS_LAG,
    METRIC_DISK_FREE,
    METRIC_DISK_SHORT,
    METRIC_EMBEDDING_BATCHES,
    METRIC_EMBEDDING_QUERIES,
    METRIC_EXTRACTIONS,
    METRIC_FENCED,
    METRIC_IN_FLIGHT,
    METRIC_LOST,
    METRIC_MEMORY,
    METRIC_POISON,
    METRIC_PUBLISHED,
    METRIC_SLOTS,
    METRIC_SUBSCRIPTIONS_LOST,
    METRIC_TURNED_AWAY,
    METRIC_UNANSWERED,
    METRIC_UNANSWERED_AGE,
    METRIC_UNKNOWN_FIELDS,
    METRIC_UNPUBLISHED,
    METRIC_WAITING,
)

_STATM = Path("/proc/self/statm")

Readings = Iterable[tuple[float, dict[str, str]]]


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
        counted, shown = meter.create_observable_counter, meter.create_observable_gauge
        counters = running.worker.counters
        counted(METRIC_FENCED, [_callback(lambda: [(counters.fenced, {})])], "", "Answers that another worker gave")
        counted(METRIC_POISON, [_callback(lambda: [(counters.poison, {})])], "", "Entries delivered too often")
        counted(
            METRIC_UNKNOWN_FIELDS,
            [_callback(lambda: [(counters.unknown_fields, {})])],
            "",
            "Fields of queries that were ignored",
        )
        counted(
            METRIC_PUBLISHED, [_callback(self._published)], "", "Queries heard on channels, by what became of them"
        )
        lost = _callback(lambda: [(running.channels.reconnects, {})])
        counted(METRIC_SUBSCRIPTIONS_LOST, [lost], "", "Subscriptions to query channels that had to be made again")
        unpublished = _callback(lambda: [(running.unpublished, {})])
        counted(METRIC_UNPUBLISHED, [unpublished], "", "Decisions that a decision channel was closed to")
        counted(METRIC_DECISIONS, [_callback(self._decisions)], "", "Decisions, by what became of them")
        counted(
            METRIC_EXTRACTIONS,
            [_callback(self._extracted)],
            "",
            "Memories extracted from in the background, by what became of them",
        )
        counted(
            METRIC_EMBEDDING_QUERIES,
            [_callback(self._embedded)],
            "",
            "Query vectors, by whether the cache had them",
        )
        counted(METRIC_EMBEDDING_BATCHES, [_callback(self._batches)], "", "Batches of queries embedded, by size")
        counted(METRIC_LOST, [_callback(self._lost)], "", "Entries lost with a stream that somebody emptied, about")
        counted(METRIC_TURNED_AWAY, [_callback(self._turned_away)], "", "Queries refused since there was no time")
        shown(METRIC_WAITING, [_callback(lambda: [(len(running.queue), {})])], "", "Queries that wait for a slot")
        slots = _callback(lambda: [(running.queue.slots, {})])
        shown(
            METRIC_SLOTS, [slots], "", "Recalls that may be under way at once; fewer while the processor is short"
        )
        told = "Entries on the bus that no worker has answered"
        shown(METRIC_UNANSWERED, [_callback(self._unanswered)], "", told)
        told = "How long the oldest entry that no worker has answered has waited; 0 where there is none"
        shown(METRIC_UNANSWERED_AGE, [_callback(self._unanswered_age)], "s", told)
        shown(METRIC_MEMORY, [_callback(_resident_bytes)], "By", "Memory of this process, where Linux tells it")
        shown(METRIC_IN_FLIGHT, [_callback(self._in_flight)], "", "Entries being worked on")
        shown(METRIC_DECISIONS_LAG, [_callback(self._lag)], "", "Decisions on the bus that are not in Postgres yet")
        shown(METRIC_COPY_LAG, [_callback(self._copy_lag)], "", "Outbox positions that a copy does not hold yet")
        ahead = _callback(lambda: [(running.clock.ahead_s, {})])
        told = "Seconds that this machine's clock is ahead of that of the bus; below 0 it is behind"
        shown(METRIC_CLOCK_AHEAD, [ahead], "", told)
        shown(METRIC_DISK_FREE, [_callback(self._disk_free)], "", "Free bytes on the disk of a folder")
        short = "1 while the disk of a folder is short, and it is not written"
        shown(METRIC_DISK_SHORT, [_callback(self._disk_short)], "", short)
        full = _callback(lambda: [(int(running.is_bus_full), {})])
        shown(METRIC_BUS_FULL, [full], "", "1 while the bus refuses callers: its memory is full, or its disk short")
        share = "The share of the sessions that a canary answers; 0 once it was taken back"
        shown(METRIC_CANARY_SHARE, [_callback(self._canary_shares)], "", share)
        taken = "1 where a canary was taken back by its gates"
        shown(METRIC_CANARY_TAKEN_BACK, [_callback(self._canaries_taken_back)], "", taken)
        shown(METRIC_BREAKER_OPEN, [_callback(self._breakers)], "", "1 while a source is left alone")

    def _canary_shares(self) -> Readings:
        for one in self._running.canaries.trials:
            yield one.share, {LABEL_PROFILE: one.profile, LABEL_CANARY: one.canary}

    def _canaries_taken_back(self) -> Readings:
        for one in self._running.canaries.trials:
            yield int(one.shared.taken_back is not None), {LABEL_PROFILE: one.profile, LABEL_CANARY: one.canary}

    def _lost(self) -> Readings:
        for stream, count in self._running.lost.items():
            yield count, {LABEL_STREAM: stream}

    def _disk_free(self) -> Readings:
        for one in self._running.disks:
            yield one.free_bytes, {LABEL_FOLDER: one.name}

    def _disk_short(self) -> Readings:
        for one in self._running.disks:
            yield int(one.why is not None), {LABEL_FOLDER: one.name}

    def _turned_away(self) -> Readings:
        counts = self._running.queue.turned_away
        return [(counts[reason], {LABEL_REASON: reason}) for reason in ("no_time", "full")]

    def _decisions(self) -> Readings:
        if (sink := self._running.sink) is not None:
            counts = sink.counts
            yield counts.persisted, {LABEL_RESULT: "persisted"}
            yield counts.repeated, {LABEL_RESULT: "repeated"}
            yield counts.set_aside, {LABEL_RESULT: "set_aside"}
            yield counts.held, {LABEL_RESULT: "held"}

    def _published(self) -> Readings:
        counts = self._running.channels.queries.counts
        yield counts.received, {LABEL_RESULT: "received"}
        yield counts.entered, {LABEL_RESULT: "entered"}
        yield counts.duplicates, {LABEL_RESULT: "duplicate"}
        yield counts.dropped, {LABEL_RESULT: "dropped"}

    def _extracted(self) -> Readings:
        for part in tuple(self._running.extractions):
            counts = part.counts
            yield counts.extracted, {LABEL_EXTRACTOR: part.name, LABEL_RESULT: "extracted"}
            yield counts.fallen_back, {LABEL_EXTRACTOR: part.name, LABEL_RESULT: "fallen_back"}
            yield counts.failed, {LABEL_EXTRACTOR: part.name, LABEL_RESULT: "failed"}

    def _lag(self) -> Readings:
        sink = self._running.sink
        if sink is not None and sink.lag is not None:
            yield sink.lag, {}

    def _unanswered(self) -> Readings:
        for stream, backlog in self._running.backlogs.items():
            yield backlog.count, {LABEL_STREAM: stream}

    def _unanswered_age(self) -> Readings:
        now = self._running.clock.now()
        for stream, backlog in self._running.backlogs.items():
            yield backlog.age_s(now), {LABEL_STREAM: stream}

    def _in_flight(self) -> Readings:
        for stream, count in self._running.in_flight.items():
            yield count, {LABEL_STREAM: stream}

    def _copy_lag(self) -> Readings:
        for projector in tuple(self._running.projectors):
            if (behind := projector.lag) is not None:
                yield behind, {LABEL_COPY: projector.kind}

    def _breakers(self) -> Readings:
        sources = self._running.opened.sources
        for name in sources.by_name:
            source = sources.by_name[name]
            is_open = sources.breakers[name].is_open or (
                isinstance(source, SeveralStores) and source.are_left_alone
            )
            yield int(is_open), {LABEL_SOURCE: name}

    def _embedded(self) -> Readings:
        embedder = self._running.opened.questions
        if isinstance(embedder, CountsQueries):
            yield embedder.cache_hits, {LABEL_CACHE: "hit"}
            yield embedder.cache_misses, {LABEL_CACHE: "miss"}

    def _batches(self) -> Readings:
        embedder = self._running.opened.questions
        if isinstance(embedder, CountsQueries):
            for size, count in enumerate(embedder.batches, start=1):
                yield count, {LABEL_SIZE: str(size)}


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
