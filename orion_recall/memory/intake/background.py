"""Background work of a worker: slower extraction, access counts, retention of receipts and dead letters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.errors import RecordError
from orion_recall.memory.extraction.light import Extraction, Extractor, Passage, light
from orion_recall.memory.record.compose import known_names, unique_names
from orion_recall.memory.record.extraction_queue import ExtractionQueue, Taken
from orion_recall.memory.record.record import Record
from orion_recall.postgres.periods import OF_TENANT, Period, Periods
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost
from orion_recall.tasks import POSTGRES_S, Backoff, sleep
from orion_recall.values import Memory, Neighbour

log = logging.getLogger("orion_recall.memory")

# A text that crashes workers is not claimed for ever.
MOST_ATTEMPTS = 5
_POLL_S = 1.0
# Between what an extractor takes at most and when its memories are taken from it.
_MARGIN_S = 30.0
_RELEASE_TIMEOUT_S = 1.0
# Pauses of 0.2 s and twice as long each time: less than the margin.
_PATIENCE = 6


@dataclass(slots=True)
class ExtractionCounts:
    """Counts of memories: done as chosen, done by light extraction instead, to be done again."""

    extracted: int = 0
    fallen_back: int = 0
    failed: int = 0


class BackgroundExtraction:
    """Claims and extracts the memories that are due for one extractor: `run()` until cancelled, in any worker."""

    def __init__(self, queue: ExtractionQueue, extractor: Extractor, *, look_every_s: float = _POLL_S) -> None:
        self.counts = ExtractionCounts()
        self.error: str | None = None
        self._queue, self._extractor, self._look_every_s = queue, extractor, look_every_s
        self._wake = asyncio.Event()
        self._in_flight: dict[asyncio.Task[None], list[Taken]] = {}

    @property
    def name(self) -> str:
        return self._extractor.name

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Take up what is due, as much at once as the extractor takes; wait while the record is away."""
        backoff = Backoff(*POSTGRES_S)
        try:
            while True:
                self._wake.clear()
                try:
                    took = await self._take()
                    self.error = None
                    backoff.reset()
                except RecordError as error:
                    if self.error is None:
                        log.warning("extraction by %s waits: %s", self.name, error)
                    self.error = str(error)
                    await backoff.wait()
                    continue
                if not took or len(self._in_flight) >= self._extractor.at_once:
                    await sleep(self._look_every_s, self._wake)
        finally:
            await self._release()

    async def _take(self) -> bool:
        free = self._extractor.at_once - len(self._in_flight)
        if free <= 0:
            return True
        batch = self._extractor.batch
        taken = await self._queue.take(self.name, free * batch, for_s=self._extractor.longest_s + _MARGIN_S)
        for start in range(0, len(taken), batch):
            some = taken[start : start + batch]
            task = asyncio.create_task(self._serve(some))
            self._in_flight[task] = some
            task.add_done_callback(self._done)
        return bool(taken)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # The rows come back by themselves, later: what brought this down may bring the next one down too.
            self.counts.failed += 1
            log.error("extraction by %s failed: %s: %s", self.name, type(error).__name__, error, exc_info=error)

    async def _serve(self, taken: Sequence[Taken]) -> None:
        passages = [passage_of(one.memory, one.previous) for one in taken]
        wanted = [place for place, one in enumerate(taken) if one.memory.is_live and one.attempts <= MOST_ATTEMPTS]
        found = await self._extractor.extract([passages[place] for place in wanted]) if wanted else []
        by_place = dict(zip(wanted, found, strict=True))
        gave_up = f"{self.name}: given up after {MOST_ATTEMPTS} attempts"
        backoff, tries = Backoff(*POSTGRES_S), 1
        for place, one in enumerate(taken):
            extraction = by_place[place] if place in by_place else light(passages[place], gave_up)
            # What was found was dear: a record that is away for a moment does not cost it.
            while True:
                try:
                    await self._finish(one, extraction)
                    break
                except RecordError:
                    if tries > _PATIENCE:
                        raise
                    tries += 1
                    await backoff.wait()

    async def _finish(self, one: Taken, found: Extraction) -> None:
        whole = replace(found, entities=unique_names([*found.entities, *one.memory.given_entities]))
        if await self._queue.finish(one, whole) == "outdated":
            self.counts.failed += int(one.memory.is_live)
        elif found.note is None:
            self.counts.extracted += 1
        else:
            self.counts.fallen_back += 1
            log.info("extraction fell back to light: %s", found.note)

    async def _release(self) -> None:
        in_flight = dict(self._in_flight)
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)
        left = [one for taken in in_flight.values() for one in taken]
        if left:
            with contextlib.suppress(RecordError, TimeoutError):
                async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                    await self._queue.put_back(left)


def passage_of(memory: Memory, previous: Neighbour | None) -> Passage:
    return Passage(
        text=memory.text,
        speaker=memory.speaker,
        known=tuple(known_names(memory.given_entities, memory.title)),
        at=memory.mentioned_at if memory.occurred_at is None else memory.occurred_at,
        previous=previous,
    )


bus_log = logging.getLogger("orion_recall.bus")

_EVERY_S = 600.0


class DeadLetterRetention:
    """Trims the streams of dead letters: `run()` until cancelled. Every worker may run one."""

    def __init__(self, redis: Redis, streams: Iterable[str], days: int, now: Callable[[], float]) -> None:
        self._redis, self._streams, self._days, self._now = redis, tuple(streams), days, now

    async def run(self) -> None:
        while True:
            try:
                await self.trim()
            except (RedisError, OSError) as error:
                bus_log.warning("old dead letters stay for now: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def trim(self) -> int:
        oldest = int((self._now() - self._days * 86_400) * 1000)
        gone = 0
        for stream in self._streams:
            gone += int(await self._redis.xtrim(stream, minid=str(max(oldest, 0)), approximate=False))
        if gone:
            bus_log.info("%d dead letters older than %d days are deleted", gone, self._days)
        return gone


KEPT_DAYS = 7
_PAUSE_S = 0.2
# The lock that one worker at a time holds while it deletes a batch. Rows are not locked one by one: that asks for
# the right to update them, which a worker has not.
_LOCK: LiteralString = "SELECT try_write_lock('requests')"
# By the clock of the database, which wrote the times.
_DELETE: LiteralString = f"""
DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
    SELECT tenant, idempotency_key FROM memory_requests
    WHERE at < now() - make_interval(days => $1) AND {OF_TENANT} ORDER BY at LIMIT $2
) RETURNING 1
"""  # noqa: S608 (of constants)
_A_WEEK = Periods(days=KEPT_DAYS)


class RequestRetention:
    """Deletes receipts older than their tenants' days: `run()` until cancelled. Every worker may run one."""

    def __init__(
        self, pool: Pool, periods: Periods = _A_WEEK, *, every_s: float = _EVERY_S, batch_rows: int = 1000
    ) -> None:
        self._pool, self._periods, self._every_s, self._batch_rows = pool, periods, every_s, batch_rows

    async def run(self) -> None:
        while True:
            try:
                for period in self._periods.each:
                    deleted = self._batch_rows
                    while deleted == self._batch_rows:
                        deleted = await self._batch(period)
                        await asyncio.sleep(_PAUSE_S)
            except RecordError as error:
                if not is_connection_lost(error):
                    log.error("old request receipts cannot be deleted: %s; it is tried again in ten minutes", error)  # noqa: TRY400 (the text says it all)
            await asyncio.sleep(self._every_s)

    async def _batch(self, period: Period) -> int:
        async with borrow(self._pool, "deleting answers to old requests") as connection, connection.transaction():
            if not await connection.fetchval(_LOCK):
                return 0
            given = period.days, self._batch_rows, period.tenant, period.but
            return len(await connection.fetch(_DELETE, *given))


_MOST_IDS = 50
_FLUSH_EVERY_S = 2.0
_MOST_WAITING = 100_000


class AccessCounts:
    """Collects accesses and writes them every two seconds; counts that cannot be written are dropped."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: dict[str, list[str]] = defaultdict(list)

    def note(self, tenant: str, ids: Sequence[str]) -> None:
        waiting = self._waiting[tenant]
        if len(waiting) < _MOST_WAITING:
            waiting.extend(ids[:_MOST_IDS])

    async def run(self) -> None:
        """Writes until cancelled, and once more then, if the record answers."""
        try:
            while True:
                await asyncio.sleep(_FLUSH_EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_EVERY_S):
                    await self.flush()

    async def flush(self) -> None:
        waiting, self._waiting = self._waiting, defaultdict(list)
        for tenant, ids in waiting.items():
            try:
                await self._record.touch(tenant, ids)
            except RecordError:
                return
