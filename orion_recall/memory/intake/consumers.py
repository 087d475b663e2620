"""Consumers of the intake streams: memories, updates, deletions, feedback; one loop for each stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from opentelemetry.trace import Tracer

from orion_recall.bus.commit import CommitPort
from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop
from orion_recall.bus.group_reader import Backlog, GroupReader
from orion_recall.bus.signing.callers import Callers
from orion_recall.memory.intake.handlers import (
    ChangePropagation,
    DeleteHandler,
    FeedbackHandler,
    StoreHandler,
    UpdateHandler,
)
from orion_recall.memory.intake.message_worker import Handler, MessageWorker
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.tombstones import TombstoneStream
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings
from orion_recall.tasks import cancel

_AT_ONCE = 4


class IntakeConsumers:
    """All intake consumers: `run()` until `stop()`. Without a pool every message is refused: there is no record."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool | None,
        tombstones: TombstoneStream,
        *,
        reader: Callable[[str], GroupReader],
        committer: Callable[[str], CommitPort],
        callers: Callable[[str], Callers | None] | None = None,
        are_persisted: Callable[[int], Awaitable[bool]],
        wake: Callable[[], None],
        tracer: Tracer | None = None,
    ) -> None:
        propagation = (
            ChangePropagation(pool, tombstones, settings.acknowledge_ms, wake) if pool is not None else None
        )
        record = Record(pool, extractor=settings.extractor) if pool is not None else None
        handlers: Mapping[str, Handler] = {
            "stores": StoreHandler(record, propagation, settings, wake),
            "updates": UpdateHandler(pool, propagation, settings),
            "deletes": DeleteHandler(pool, propagation, settings),
            "feedback": FeedbackHandler(pool, settings, are_persisted),
        }
        limits = ConsumerLimits.of(settings, concurrency=_AT_ONCE)
        self._workers: list[MessageWorker] = []
        self._loops: dict[str, ConsumerLoop] = {}
        self._readers: dict[str, GroupReader] = {}
        for name, handler in handlers.items():
            stream = settings.intake_streams[name]
            intake = self._readers[name] = reader(stream)
            worker = MessageWorker(
                settings,
                committer(stream),
                handler,
                reset_delivery_count=intake.reset_delivery_count,
                server_time=intake.clock.earliest,
                tracer=tracer,
                callers=callers(handler.kind) if callers is not None else None,
            )
            self._workers.append(worker)
            self._loops[name] = ConsumerLoop(intake, worker.serve, limits)

    @property
    def in_flight(self) -> Mapping[str, int]:
        return {name: loop.in_flight for name, loop in self._loops.items()}

    @property
    def backlogs(self) -> Mapping[str, Backlog]:
        """Unanswered entries by kind of message, for the kinds whose stream was looked at."""
        return {name: reader.backlog for name, reader in self._readers.items() if reader.backlog is not None}

    @property
    def lost(self) -> Mapping[str, int]:
        return {name: reader.lost for name, reader in self._readers.items()}

    def stop(self) -> None:
        """Take nothing more; `run` returns when the entries in flight have ended."""
        for part in (*self._loops.values(), *self._workers):
            part.stop()

    async def run(self) -> None:
        tasks = [asyncio.create_task(loop.run()) for loop in self._loops.values()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await cancel(*tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
