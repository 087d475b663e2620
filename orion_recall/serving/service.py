"""The service: one whole worker, opened in order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orion_recall import __version__
from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop
from orion_recall.bus.group_reader import Backlog
from orion_recall.bus.heartbeat import Heartbeat
from orion_recall.bus.query_channels import PublishedQueries, QueryChannels
from orion_recall.bus.renewal import StreamRenewal
from orion_recall.bus.worker_bus import WorkerBus
from orion_recall.contracts import QUERY_KIND
from orion_recall.engines.disk_space import DiskSpace
from orion_recall.errors import ModelError
from orion_recall.external.mappings import load_mappings
from orion_recall.memory.extraction.extractors import open_extractors
from orion_recall.memory.extraction.light import Extractor
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import check_models
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse, ProfileWatch, profiles_with_default
from orion_recall.serving.backends import Opened, embedded_copies, open_sources, room_of
from orion_recall.serving.background import BackgroundWork
from orion_recall.serving.observe.health import SourceChecks
from orion_recall.serving.observe.heartbeat_fields import HEALTH, DiskState, DiskWatch, health_field, model_fields
from orion_recall.serving.observe.metrics import otlp_exporters
from orion_recall.serving.observe.observer import Observer, listening_socket, observing
from orion_recall.serving.query_queue import Admission, QueryQueue
from orion_recall.serving.trials import Shadows, to_decisions
from orion_recall.serving.worker import Worker
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, in_time

_HASH_DIGITS = 12


def build_of(settings: Settings, embedder: Embedder) -> Mapping[str, str]:
    """Version, model, extractor and the weights' hash, for decisions; those of the model may not be known yet."""
    known = {"version": __version__, "extractor": settings.extractor}
    try:
        return known | {"model": embedder.name, "weights": embedder.weights_sha256[:_HASH_DIGITS]}
    except ModelError:
        return known


async def check_settings(settings: Settings) -> None:
    """Profiles, models, the health port, OTLP and the mappings' file; nothing stays open.

    SettingsError, ProfileError or ModelError for the first thing that cannot be used.
    """
    profiles_with_default(settings)
    await check_models(settings)
    if settings.health_port is not None:
        listening_socket(settings.health_host, settings.health_port).close()
    otlp_exporters()
    load_mappings(settings.mappings).check_secrets()


_STOP_S = 10.0
# A copy that is filled anew takes longer.
_CATCH_UP_S = 5.0
# How long what was cancelled may wait for Postgres. A sink's batch that is not written by then stays on the bus.
_CUT_OFF_S = 2.0


class Service:
    """A worker with its sources: `async with Service.start(settings)`, then `serve()` until `stop()`."""

    def __init__(
        self,
        settings: Settings,
        opened: Opened,
        bus: WorkerBus,
        *,
        extractors: Sequence[Extractor] = (),
        observer: Observer | None = None,
        disks: Sequence[DiskSpace] = (),
    ) -> None:
        self.settings, self.opened = settings, opened
        self.observer = observer or Observer(settings)
        self.profiles_in_use = ProfilesInUse(profiles_with_default(settings))
        self.is_taking = False
        self._bus, self.clock = bus, bus.clock
        self._stopping = asyncio.Event()
        self._extractors = tuple(one.name for one in extractors)
        self._heartbeat = Heartbeat(bus.redis, settings.worker_key(settings.instance), self._heartbeat_fields)
        self._checks = SourceChecks(self, changed=self._heartbeat.wake)
        of_copies = [room_of(kind, settings) for kind in embedded_copies(settings)]
        self._disks = DiskWatch([*of_copies, *disks], changed=self._heartbeat.wake)
        self._profile_watch = ProfileWatch(self.profiles_in_use, settings, changed=self._profiles_changed)
        self.build = build_of(settings, opened.embedder)
        self.background = BackgroundWork(
            settings,
            bus,
            opened,
            profiles=lambda: self.profiles,
            extractors=extractors,
            tracer=self.observer.tracer,
            postgres_is_there=self._checks.wake,
        )
        self.shadows = Shadows(settings, opened.sources, to_decisions(bus.redis, settings), bus.clock.now)
        self._intake = bus.reader(settings.query_stream)
        callers = bus.callers(QUERY_KIND)
        self.worker = Worker(
            settings,
            bus.committer(settings.query_stream),
            opened.sources,
            self.profiles_in_use,
            server_time=bus.clock.earliest,
            used=self.background.note_use,
            tracer=self.observer.tracer,
            served=self.observer.served,
            shadow=self.shadows.add,
            callers=callers,
            build=lambda: self.build,
        )
        admission = Admission(most_slots=settings.concurrency, deadline_s=settings.deadline_ms / 1000)
        self.queue = QueryQueue(
            settings, admission, earliest=bus.clock.earliest, caller_of=callers.caller_of if callers else None
        )
        self._queries = ConsumerLoop(
            self._intake,
            self.worker.serve,
            ConsumerLimits.of(settings, concurrency=settings.concurrency),
            queue=self.queue if settings.max_waiting else None,
            turn_away=self.worker.turn_away,
        )
        self.channels = QueryChannels(
            settings.bus_url or "",
            settings.published_on["queries"],
            PublishedQueries(bus.redis, stream=settings.query_stream, max_bytes=settings.max_query_bytes),
        )
        self.renewal = StreamRenewal(bus.redis, settings)
        self.observer.attach(self, bus.redis)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, settings: Settings, *, disks: Sequence[DiskSpace] = ()) -> AsyncGenerator[Service]:
        """A service with everything loaded and open; SettingsError when no bus is configured.

        `disks` are those of servers that this process runs: they are watched beside those of the copies.
        """
        async with (
            WorkerBus.open(settings) as bus,
            observing(settings) as observer,
            open_extractors(settings) as extractors,
            open_sources(settings) as opened,
        ):
            yield cls(settings, opened, bus, extractors=extractors, observer=observer, disks=disks)

    @property
    def profiles(self) -> Mapping[str, LoadedProfile]:
        return self.profiles_in_use.current

    def reload_profiles(self) -> None:
        self._profile_watch.ask()

    def _profiles_changed(self) -> None:
        self._heartbeat.wake()
        self.background.profile_texts.note()

    @property
    def disks(self) -> Sequence[DiskState]:
        return self._disks.states

    @property
    def is_bus_full(self) -> bool:
        """Whether the bus refused a message of this worker for want of memory, when it last wrote one."""
        return self._heartbeat.is_full

    @property
    def lost(self) -> Mapping[str, int]:
        """Entries that were lost with a stream that somebody emptied, by what they brought: about as many."""
        intake, sink = self.background.intake, self.background.sink
        lost = {"queries": self._intake.lost, **(intake.lost if intake else {})}
        return lost | ({"decisions": sink.lost} if sink else {})

    @property
    def backlogs(self) -> Mapping[str, Backlog]:
        """Entries on the bus that no worker has answered, by what they bring, once they were looked at."""
        intake, queries = self.background.intake, self._intake.backlog
        return {**({"queries": queries} if queries else {}), **(intake.backlogs if intake else {})}

    @property
    def in_flight(self) -> Mapping[str, int]:
        intake = self.background.intake
        return {"queries": self._queries.in_flight, **(intake.in_flight if intake else {"stores": 0})}

    def stop(self) -> None:
        """Take nothing more; `serve` returns when what is in flight has been answered, within ten seconds."""
        self._stopping.set()
        self.is_taking = False
        self.channels.stop()
        self._queries.stop()
        self.background.stop()

    async def serve(self, ready: asyncio.Event | None = None) -> None:
        """Serve queries, memories and decisions until `stop()`. `ready` is set once queries are taken and heard."""
        await self._bus.create_groups(self._stopping)
        await self._intake.refresh(())  # sets its clock
        await self.background.freshness.before_serving()
        await self._heartbeat.write()
        parts = (self.background, self._profile_watch, self._heartbeat)
        parts += (self.background.freshness, self._checks, self._disks, self.shadows, self.renewal)
        running = [asyncio.create_task(part.run()) for part in parts]
        opened = asyncio.create_task(self.channels.opened.wait())
        try:
            # What was stored while it was away is found by its first answer, too.
            with contextlib.suppress(TimeoutError):
                await in_time(self.background.caught_up(), _CATCH_UP_S)
            running[:0] = [asyncio.create_task(part.run()) for part in (self._queries, self.channels)]
            await asyncio.wait([opened, *running], return_when=asyncio.FIRST_COMPLETED)
            self._heartbeat.wake()
            self.is_taking = not self._stopping.is_set()
            if ready is not None:
                ready.set()
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            # Without intake the background waits for Postgres, and nothing is in flight there.
            ending = running[: 3 if self.background.intake is not None else 2]
            await asyncio.wait(ending, timeout=_STOP_S)
        finally:
            self.is_taking = False
            tasks: tuple[asyncio.Task[Any], ...] = (opened, *running)
            for task in tasks:
                task.cancel()
            _, waiting = await asyncio.wait(tasks, timeout=_CUT_OFF_S)
            if waiting:
                self.background.terminate()
            ended: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
            await self.background.close()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[asyncio.Task[None]]:
        """The task that serves, once it takes queries or has ended; it is cancelled with the block."""
        ready = asyncio.Event()
        serving, waiting = asyncio.create_task(self.serve(ready)), asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            yield serving
        finally:
            await cancel(serving, waiting)

    def _heartbeat_fields(self) -> Mapping[str, str]:
        def iso(seconds: float) -> str:
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

        self.build = build_of(self.settings, self.opened.embedder)
        state = self.profiles_in_use.state
        fields = {
            "node": self.settings.node,
            "profiles": ",".join(state.names),
            "default_profile": self.settings.default_profile,
            "profiles_version": state.version,
            "profiles_loaded_at": iso(state.loaded_at),
            "channels": ",".join(sorted(self.channels.subscribed)),
            "extractors": ",".join(self._extractors),
        }
        if lost := {name: count for name, count in self.lost.items() if count}:
            fields["lost"] = ",".join(f"{name}={count}" for name, count in lost.items())
        if self.renewal.counts:
            fields["made_anew"] = ",".join(f"{name}={count}" for name, count in self.renewal.counts.items())
        if state.error is not None and state.refused_at is not None:
            fields |= {"profiles_refused_at": iso(state.refused_at), "profiles_error": state.error[:4000]}
        fields |= model_fields(self.opened.embedder)
        return fields | {HEALTH: health_field(self._checks.stores, self._checks.copies, self._disks.states)}
