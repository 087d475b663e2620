"""One running orion-recall: everything opened in the right order, and closed in the other.

`Service` is a whole worker: queries, memories, decisions. What a recall alone needs is `stores.open_sources`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis

from orion_recall.bus.channels import QueryChannels
from orion_recall.bus.commit import Committer, Limits
from orion_recall.bus.connect import BUS_AWAY, connect, without_secrets
from orion_recall.bus.consumer_loop import Pace, Server
from orion_recall.bus.group_reader import GroupReader
from orion_recall.bus.heartbeat import Presence
from orion_recall.bus.published import PublishedQueries
from orion_recall.decisions.retention import Retention
from orion_recall.decisions.sink import DecisionSink
from orion_recall.errors import RecordError, SettingsError
from orion_recall.interfaces import Projection
from orion_recall.memory.extraction.background import BackgroundExtraction
from orion_recall.memory.extraction.chosen import open_extractors
from orion_recall.memory.extraction.extractor import Extractor
from orion_recall.memory.extraction.queue import ExtractionQueue
from orion_recall.memory.intake.consumers import MemoryDesks
from orion_recall.memory.record.access import AccessCounts
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.request_retention import RequestRetention
from orion_recall.memory.replicas.freshness import Freshness
from orion_recall.memory.replicas.keeper import CopyKeeper
from orion_recall.memory.replicas.projector import Projector, sign_for_broken
from orion_recall.memory.replicas.requests import CopyRequests
from orion_recall.memory.replicas.writer_lock import Turn
from orion_recall.postgres.pool import Pool, close_pool, is_connection_lost, migrate, open_pool
from orion_recall.profile.watch import (
    LoadedProfile,
    ProfilesInUse,
    ProfileWatch,
    profiles_with_default,
)
from orion_recall.profile.watch import loaded_profiles as loaded_profiles
from orion_recall.serving.backends import Opened, open_sources, own_copy
from orion_recall.serving.observe.heartbeat_fields import card_fields
from orion_recall.serving.observe.look import StoreLook
from orion_recall.serving.observe.observer import Observer, observing
from orion_recall.serving.shadows import Shadows, to_decisions
from orion_recall.serving.worker import Worker
from orion_recall.settings import RECALL_GROUP, Settings
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.service")

_STOP_S = 10.0
# How long what was cancelled may wait for Postgres. A sink's batch that is not written by then stays on the bus.
_CUT_OFF_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


class Service:
    """A worker with its stores: `async with Service.start(settings)`, then `serve()` until `stop()`."""

    def __init__(
        self,
        settings: Settings,
        opened: Opened,
        redis: Redis,
        blocking: tuple[Redis, Redis, Redis],
        *,
        extractors: tuple[Extractor, ...] = (),
        observer: Observer | None = None,
    ) -> None:
        self.settings, self.opened = settings, opened
        self._extractors = extractors
        self.observer = observer or Observer(settings)
        self.profiles_in_use = ProfilesInUse(profiles_with_default(settings))
        self._presence = Presence(redis, settings.worker_key(settings.instance), self._card)
        self._look = StoreLook(self, changed=self._presence.wake)
        self._profile_watch = ProfileWatch(
            self.profiles_in_use,
            settings.profiles_dir,
            default=settings.default_profile,
            changed=self._presence.wake,
        )
        self._redis, self._blocking = redis, blocking
        self._stopping = False
        self.is_taking = False
        self._stored = asyncio.Event()
        self._pool: Pool | None = None
        self._accesses: AccessCounts | None = None
        self.sink: DecisionSink | None = None
        self.projectors: list[Projector] = []
        self.extractions: list[BackgroundExtraction] = []
        pace = Pace(
            concurrency=settings.concurrency, refresh_ms=settings.refresh_ms, claim_idle_ms=settings.claim_idle_ms
        )
        self._intake = self._reader(settings.query_stream, blocking[0])
        self.shadows = Shadows(settings, opened.sources, to_decisions(redis, settings))
        self._answers = self._committer(settings.query_stream, settings.dead_stream)
        self.worker = Worker(
            settings,
            self._answers,
            opened.sources,
            self.profiles_in_use,
            server_time=self._intake.server_time,
            used=self._note_use,
            watch=self.observer,
            shadows=self.shadows,
        )
        self._queries = Server(self._intake, self.worker.serve, pace)
        self.channels = QueryChannels(
            settings.bus_url or "",
            settings.published_on["queries"],
            PublishedQueries(redis, stream=settings.query_stream, max_bytes=settings.max_message_bytes),
        )
        self._desks: MemoryDesks | None = None
        self._freshness = Freshness(
            redis, blocking[1], settings, opened.sources.tombstones, self.projections, told=self._stored.set
        )
        self.observer.attach(self, redis)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, settings: Settings) -> AsyncGenerator[Service]:
        """Everything loaded and open; the bus must be configured."""
        if settings.bus_url is None:
            raise SettingsError("ORION_REDIS_URL is not set: a worker needs a bus (or use `orion-recall up`)")
        async with contextlib.AsyncExitStack() as stack:
            observer = await stack.enter_async_context(observing(settings))
            extractors = await stack.enter_async_context(open_extractors(settings))
            opened = await stack.enter_async_context(open_sources(settings))
            redis = connect(settings.bus_url)
            stack.push_async_callback(redis.aclose)
            blocking = tuple(connect(settings.bus_url, blocking=True) for _ in range(3))
            for client in blocking:
                stack.push_async_callback(client.aclose)
            three = (blocking[0], blocking[1], blocking[2])
            yield cls(settings, opened, redis, three, extractors=extractors, observer=observer)

    @property
    def profiles(self) -> Mapping[str, LoadedProfile]:
        """Those in use now."""
        return self.profiles_in_use.current

    def reload_profiles(self) -> None:
        """Read the profiles' files again, soon; what cannot be used is refused, and the last good ones stay."""
        self._profile_watch.ask()

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The copies that this process keeps: index and graph, those that could be opened."""
        return tuple(part for part in (self.opened.index, self.opened.graph) if part is not None)

    @property
    def unpublished(self) -> int:
        """Decisions that could not be published on every decision channel."""
        return self._answers.unpublished

    @property
    def in_hand(self) -> Mapping[str, int]:
        """Entries being worked on, by what they bring."""
        return {"queries": self._queries.in_hand, **(self._desks.in_hand if self._desks else {"stores": 0})}

    def stop(self) -> None:
        """Take nothing more; `serve` returns when what is in hand has been answered, within ten seconds."""
        self._stopping, self.is_taking = True, False
        self.channels.stop()
        self._queries.stop()
        if self._desks is not None:
            self._desks.stop()

    async def serve(self, ready: asyncio.Event | None = None) -> None:
        """Queries, memories and decisions until `stop()`. `ready` is set once queries are being taken and heard."""
        await self._wait_for_bus()
        await self._freshness.before_serving()
        await self._presence.appear()
        queries, channels = asyncio.create_task(self._queries.run()), asyncio.create_task(self.channels.run())
        beside = asyncio.create_task(self._beside())
        keeping = [
            asyncio.create_task(part.run())
            for part in (self._profile_watch, self._presence, self._freshness, self._look, self.shadows)
        ]
        opened = asyncio.create_task(self.channels.opened())
        try:
            await asyncio.wait([opened, queries, beside, *keeping], return_when=asyncio.FIRST_COMPLETED)
            self._presence.wake()
            self.is_taking = not self._stopping
            if ready is not None:
                ready.set()
            await asyncio.wait([queries, channels, beside, *keeping], return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            # Without desks `beside` waits for Postgres, and holds nothing.
            answering = (queries, channels)
            await asyncio.wait([*answering, beside] if self._desks is not None else answering, timeout=_STOP_S)
        finally:
            self.is_taking = False
            for task in (opened, queries, channels, beside, *keeping):
                task.cancel()
            ended = await self._ended(opened, queries, channels, beside, *keeping)
            await self._close_pool()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _ended(self, *cancelled: asyncio.Task[None]) -> list[BaseException | None]:
        """What the tasks end with. A query to a Postgres that says nothing is waited for until it is cut off."""
        _, waiting = await asyncio.wait(cancelled, timeout=_CUT_OFF_S)
        if waiting and self._pool is not None:
            self._pool.terminate()
        return await asyncio.gather(*cancelled, return_exceptions=True)

    async def _beside(self) -> None:
        """Memories and decisions, beside the queries; what lives on Postgres waits for it as long as it takes."""
        if self.settings.dsn is None:
            stream = self.settings.decision_stream
            log.warning("no Postgres is configured: decisions stay on %s, no memory can be stored", stream)
            await self._open_desks(None).run()
            return
        self._pool = await open_pool(self.settings.dsn, name="worker", min_size=0, max_size=6)
        await _migrated(self.settings.dsn)
        self._look.wake()  # what was looked for before may be there only now
        record = Record(self._pool, extractor=self.settings.extractor)
        self._freshness.follow(self._pool)
        self._accesses = AccessCounts(record)
        self.sink = DecisionSink(self._redis, self._pool, self.settings, blocking=self._blocking[2])
        self.projectors = [self._projector(record, self.settings.dsn, part) for part in self.projections]
        queue = ExtractionQueue(self._pool)
        self.extractions = [BackgroundExtraction(queue, extractor) for extractor in self._extractors]
        requests, reader = CopyRequests(self._pool), RecordReader(self._pool)
        keepers = [CopyKeeper(requests, reader, projector) for projector in self.projectors]
        days = self.settings.decisions_retention_days
        retention = [Retention(self._pool, days)] if days is not None else []
        ageing = [RequestRetention(self._pool), *retention]
        kept_up = (self._accesses, self.sink, *self.projectors, *keepers, *self.extractions, *ageing)
        signing = sign_for_broken(record, self._own_copy, self.opened.broken)
        endless = (*(part.run() for part in kept_up), self._wake_projectors(), signing)
        tasks = [asyncio.create_task(part) for part in endless]
        desks = asyncio.create_task(self._open_desks(self._pool).run())
        try:
            done, _ = await asyncio.wait([desks, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(desks, *tasks)
        for task in done:
            task.result()

    @property
    def _own_copy(self) -> str:
        """The name of copies that lie in this worker's own folder."""
        return own_copy(self.settings)

    def _projector(self, record: Record, dsn: str, part: Projection) -> Projector:
        copy = part.copy or self._own_copy
        turn = Turn(dsn, kind=part.kind, copy=copy) if part.shared else None
        return Projector(record, part, copy=copy, turn=turn)

    async def _close_pool(self) -> None:
        if self._pool is not None:
            await close_pool(self._pool)

    async def _wake_projectors(self) -> None:
        while True:
            await self._stored.wait()
            self._stored.clear()
            for part in (*self.projectors, *self.extractions):
                part.wake()

    def _open_desks(self, pool: Pool | None) -> MemoryDesks:
        self._desks = MemoryDesks(
            self.settings,
            pool,
            self._freshness.stream,
            reader=lambda stream: self._reader(stream, self._blocking[1]),
            committer=lambda stream: self._committer(stream, f"{stream}:dead"),
            wake=self._stored.set,
            tracer=self.observer.tracer,
        )
        if self._stopping:
            self._desks.stop()
        return self._desks

    async def _wait_for_bus(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stopping:
            try:
                for stream in self.settings.intake_streams.values():
                    reader = self._intake
                    if stream != reader.stream:
                        reader = self._reader(stream, self._blocking[1])
                    await reader.create_group()
                    await reader.refresh(())
                return
            except BUS_AWAY as error:
                if pause_s == _FIRST_PAUSE_S:
                    log.warning(
                        "waiting for the bus at %s: %s", without_secrets(self.settings.bus_url or ""), error
                    )
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _reader(self, stream: str, blocking: Redis) -> GroupReader:
        return GroupReader(
            self._redis, blocking, stream=stream, group=RECALL_GROUP, consumer=self.settings.instance
        )

    def _committer(self, stream: str, dead_stream: str) -> Committer:
        settings = self.settings
        return Committer(
            self._redis,
            stream=stream,
            group=RECALL_GROUP,
            decision_stream=settings.decision_stream,
            dead_stream=dead_stream,
            decision_channels=settings.published_on["decisions"],
            limits=Limits(
                reply_maxlen=settings.reply_maxlen,
                reply_ttl_s=settings.reply_ttl_s,
                decisions_cap=settings.decisions_cap,
            ),
        )

    def _card(self) -> Mapping[str, str]:
        """What this worker says of itself on the bus."""
        state = self.profiles_in_use.state
        card = {
            "node": self.settings.node,
            "profiles": ",".join(state.names),
            "default_profile": self.settings.default_profile,
            "profiles_version": state.version,
            "profiles_loaded_at": _iso(state.loaded_at),
            "channels": ",".join(sorted(self.channels.subscribed)),
        }
        if state.error is not None and state.refused_at is not None:
            card |= {"profiles_refused_at": _iso(state.refused_at), "profiles_error": state.error[:4000]}
        return card | card_fields(self._look.stores, self._look.copies)

    def _note_use(self, tenant: str, ids: Any) -> None:
        if self._accesses is not None:
            self._accesses.note(tenant, ids)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


async def _migrated(dsn: str) -> None:
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            for name in await migrate(dsn):
                log.info("schema: applied %s", name)
            return
        except RecordError as error:
            if not is_connection_lost(error):
                log.error("the schema cannot be applied: %s", error)  # noqa: TRY400 (the text says it all)
            elif pause_s == _FIRST_PAUSE_S:
                log.warning("waiting for Postgres: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
