"""Background work of a service: memory messages, decisions, copies, extraction, and retention.

How long what is kept is said by the file that ORION_RETENTION names, for all tenants and for single ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import yaml
from opentelemetry.trace import Tracer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orion_recall.bus.worker_bus import WorkerBus
from orion_recall.contracts import describe
from orion_recall.decisions.profile_texts import ProfileTexts
from orion_recall.decisions.removal import OLD_DECISIONS
from orion_recall.decisions.sink import DecisionSink, are_persisted
from orion_recall.errors import RecordError, SettingsError
from orion_recall.interfaces import Projection
from orion_recall.memory.extraction.light import Extractor
from orion_recall.memory.intake.consumers import IntakeConsumers, keep_dead_letters
from orion_recall.memory.intake.handlers import KEPT_DAYS, OLD_REQUESTS, MessageHandlers
from orion_recall.memory.record.extraction_queue import BackgroundExtraction
from orion_recall.memory.record.record import AccessCounts, Record
from orion_recall.memory.replicas.maintenance import CopyKeeper
from orion_recall.memory.replicas.projector import Projector, WriterLock, heartbeat_for_broken
from orion_recall.memory.replicas.tombstones import Freshness
from orion_recall.postgres.periods import Periods, Retention
from orion_recall.postgres.pool import Pool, close_pool, is_connection_lost, open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.profile.watch import LoadedProfile
from orion_recall.serving.backends import Opened, own_copy
from orion_recall.serving.explain import answer_recall_requests
from orion_recall.settings import Settings
from orion_recall.tasks import POSTGRES_S, Backoff, cancel, in_time

# Days; `keep` in the file is None.
_Days = Annotated[
    Annotated[int, Field(ge=1, le=36_500)] | None, BeforeValidator(lambda value: None if value == "keep" else value)
]


class _OfTenant(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    decisions: _Days = None
    requests: _Days = None


class _File(_OfTenant):
    dead_letters: _Days = None
    tenants: dict[str, _OfTenant] = Field(default_factory=dict[str, _OfTenant])

    def periods(self, what: Literal["decisions", "requests"], default: int | None) -> Periods:
        tenants = {name: getattr(one, what) for name, one in self.tenants.items() if what in one.model_fields_set}
        return Periods(days=getattr(self, what) if what in self.model_fields_set else default, by_tenant=tenants)


def read_retention(settings: Settings) -> tuple[Periods, Periods, int | None]:
    """How long decisions, answers to requests, and dead letters are kept; SettingsError for a file that is wrong.

    Where it says nothing of decisions, ORION_DECISIONS_RETENTION_DAYS counts; of requests, a week. A dead letter is
    no tenant's.
    """
    said, days = _read(settings), settings.decisions_retention_days
    if days is not None and "decisions" in said.model_fields_set:
        raise SettingsError(
            f"ORION_DECISIONS_RETENTION_DAYS and `decisions` in {settings.retention} say the same: leave one out"
        )
    return said.periods("decisions", days), said.periods("requests", KEPT_DAYS), said.dead_letters


def _read(settings: Settings) -> _File:
    path = settings.retention
    if path is None:
        return _File()
    try:
        return _File.model_validate(yaml.safe_load(path.read_bytes()) or {})
    except OSError as error:
        raise SettingsError(f"ORION_RETENTION: {path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"ORION_RETENTION: {path} is not YAML") from error
    except ValueError as error:  # also for a date that there is not
        told = describe(error) if isinstance(error, ValidationError) else error
        raise SettingsError(f"ORION_RETENTION: {path}: {told}; write days, or keep") from error


log = logging.getLogger("orion_recall.service")
_LEAVE_S, _LOOK_EVERY_S = 1.0, 0.02


class BackgroundWork:
    """Background tasks from `run()` until `stop()`. Those that need Postgres wait for it without limit.

    `postgres_is_there` is called once it is: sources may answer only from then on.
    """

    def __init__(
        self,
        settings: Settings,
        bus: WorkerBus,
        opened: Opened,
        *,
        profiles: Callable[[], Mapping[str, LoadedProfile]],
        extractors: Sequence[Extractor] = (),
        tracer: Tracer | None = None,
        postgres_is_there: Callable[[], None],
    ) -> None:
        self.sink: DecisionSink | None = None
        self.intake: IntakeConsumers | None = None
        self.projectors: list[Projector] = []
        self.extractions: list[BackgroundExtraction] = []
        self.profile_texts = ProfileTexts(profiles)
        self._settings, self._bus, self._opened, self._profiles = settings, bus, opened, profiles
        self._kept = read_retention(settings)
        streams = (*settings.intake_streams.values(), settings.decision_stream)
        self._dead_streams = tuple(f"{stream}:dead" for stream in streams)
        self._extractors, self._tracer, self._postgres_is_there = extractors, tracer, postgres_is_there
        self._stored = asyncio.Event()
        self._pool: Pool | None = None
        self._accesses: AccessCounts | None = None
        self._is_stopping = False
        tombstones = opened.sources.tombstones
        tombstones.follow(self.projections)
        self.freshness = Freshness(
            bus.redis, bus.changes, settings, tombstones, own_copy=own_copy(settings), told=self._stored.set
        )

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The copies that this process keeps: index and graph, those that could be opened."""
        return tuple(part for part in (self._opened.index, self._opened.graph) if part is not None)

    def note_use(self, tenant: str, ids: Sequence[str]) -> None:
        """Count the memories as used; before Postgres is there they are not counted."""
        if self._accesses is not None:
            self._accesses.note(tenant, ids)

    def stop(self) -> None:
        self._is_stopping = True
        if self.intake is not None:
            self.intake.stop()

    async def run(self) -> None:
        """Serve memory messages, and with Postgres everything else."""
        dsn = self._settings.dsn
        if dsn is None:
            stream = self._settings.decision_stream
            log.warning("no Postgres is configured: decisions stay on %s, no memory can be stored", stream)
            await self._open_intake(None).run()
            return
        self._pool = await open_pool(dsn, name="worker", min_size=0, max_size=6)
        await _migrate(dsn)
        self._postgres_is_there()
        endless = self._endless(self._pool, dsn)
        intake = asyncio.create_task(self._open_intake(self._pool).run())
        tasks = [asyncio.create_task(part) for part in endless]
        try:
            done, _ = await asyncio.wait([intake, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(intake, *tasks)
        for task in done:
            task.result()

    async def caught_up(self) -> None:
        """Returns once the copies that are this process's alone have all of the outbox, or cannot go on."""
        while self._settings.dsn is not None:
            own = [one for one in self.projectors if not one.projection.shared]
            if self.sink is not None and all(one.lag == 0 or one.error is not None for one in own):
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def close(self) -> None:
        if self._pool is not None:
            # Else receipts would wait for the copies of a worker that has ended.
            with contextlib.suppress(RecordError, TimeoutError):
                await in_time(Record(self._pool).leave(own_copy(self._settings)), _LEAVE_S)
            await close_pool(self._pool)

    def terminate(self) -> None:
        """Cut the connections to Postgres: queries that it does not answer end with an error."""
        if self._pool is not None:
            self._pool.terminate()

    def _endless(self, pool: Pool, dsn: str) -> list[Coroutine[Any, Any, None]]:
        record = Record(pool, extractor=self._settings.extractor)
        self.freshness.follow(pool)
        self._accesses = AccessCounts(record)
        self.sink = DecisionSink(self._bus.redis, pool, self._settings, blocking=self._bus.decisions)
        for part in self.projections:
            copy = part.copy or own_copy(self._settings)
            lock = WriterLock(dsn, kind=part.kind, copy=copy) if part.shared else None
            self.projectors.append(Projector(record, part, copy=copy, lock=lock))
        self.extractions = [BackgroundExtraction(pool, extractor) for extractor in self._extractors]
        keepers = [CopyKeeper(pool, projector) for projector in self.projectors]
        decisions, answers, days = self._kept
        retention = (Retention(pool, answers, OLD_REQUESTS), Retention(pool, decisions, OLD_DECISIONS))
        parts = (self._accesses, self.sink, *self.projectors, *keepers, *self.extractions, *retention)
        now, streams = self._bus.clock.now, self._dead_streams
        return [
            *(part.run() for part in parts),
            *([] if days is None else [keep_dead_letters(self._bus.redis, streams, days, now)]),
            self._wake_projectors(),
            self.profile_texts.run(pool),
            heartbeat_for_broken(record, own_copy(self._settings), self._opened.broken),
            answer_recall_requests(pool, self._settings, self._opened.sources, self._profiles),
        ]

    async def _wake_projectors(self) -> None:
        while True:
            await self._stored.wait()
            self._stored.clear()
            for part in (*self.projectors, *self.extractions):
                part.wake()

    def _open_intake(self, pool: Pool | None) -> IntakeConsumers:
        self.intake = IntakeConsumers(
            self._settings,
            MessageHandlers(
                self._settings,
                pool,
                self.freshness.stream,
                are_persisted=partial(are_persisted, self._bus.redis, self._settings.decision_stream),
                wake=self._stored.set,
            ),
            reader=self._bus.reader,
            committer=self._bus.committer,
            callers=self._bus.callers,
            tracer=self._tracer,
        )
        if self._is_stopping:
            self.intake.stop()
        return self.intake


async def _migrate(dsn: str) -> None:
    backoff = Backoff(*POSTGRES_S)
    while True:
        try:
            for name in await migrate(dsn):
                log.info("schema: applied %s", name)
            return
        except RecordError as error:
            if not is_connection_lost(error):
                log.error("the schema cannot be applied: %s", error)  # noqa: TRY400 (the text says it all)
            elif backoff.is_first:
                log.warning("waiting for Postgres: %s", error)
            await backoff.wait()
