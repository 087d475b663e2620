"""The decision sink: reads decisions from the bus in batches, writes each once to Postgres, acknowledges and trims.

Nothing is acknowledged before it is committed. While Postgres is away the sink keeps its batch and reads no
further, so the rest stays on the stream. A row that Postgres refuses becomes a dead letter, alone; where the bus
refuses that too (no memory left, no right), it stays pending and is retried when it has been idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from redis.asyncio import Redis

from orion_recall.bus.group_reader import Entry, Healed
from orion_recall.decisions.stream import DecisionStream
from orion_recall.postgres.pool import ACQUIRE_TIMEOUT_S, POSTGRES_ERRORS, Pool, reason, sqlstate
from orion_recall.settings import Settings
from orion_recall.tasks import POSTGRES_S, Backoff

log = logging.getLogger("orion_recall.decisions")

BATCH_ROWS = 500
BATCH_BYTES = 8 * 1024 * 1024
UPKEEP_EVERY_S = 5.0
# After a batch that was not full the sink pauses: a quiet bus costs ten statements a second, not one a decision.
_REST_S = 0.1
_GRACE_S = 5.0
# 21 cardinality, 22 data, 23 integrity, 54 too large or too deep: the row would be refused every time.
_REFUSED_CLASSES = ("21", "22", "23", "54")
_INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")


@dataclass(slots=True, kw_only=True)
class SinkCounts:
    """Counts of entries by outcome: rows written, rows that existed already, entries set aside or trimmed.

    `held` counts how often an entry stayed pending because neither Postgres nor the dead stream took it.
    """

    persisted: int = 0
    repeated: int = 0
    set_aside: int = 0
    held: int = 0
    trimmed: int = 0


Row = tuple[str, bytes]
"""One entry to persist: its id and its envelope."""


class DecisionSink:
    """One consumer of the decision stream: `run()` it until cancelled. Several may run, here and elsewhere.

    `blocking` is the client for reads that wait; by default `redis`, whose socket time-out must then exceed
    the block of one second. The pool may have been opened while Postgres was away.
    """

    def __init__(
        self,
        redis: Redis,
        pool: Pool,
        settings: Settings,
        *,
        consumer: str | None = None,
        blocking: Redis | None = None,
    ) -> None:
        self.counts = SinkCounts()
        self._pool = pool
        self._stop = asyncio.Event()
        self._stream = DecisionStream(
            redis, blocking or redis, settings, consumer=consumer or settings.instance, stop=self._stop
        )
        self._next_upkeep = 0.0
        self._claim_every_s = settings.claim_idle_ms / 1000
        self._away = False
        self._lag: int | None = None

    @property
    def lag(self) -> int | None:
        """Decisions that were not in Postgres a few seconds ago; None when unknown."""
        return self._lag

    @property
    def healed(self) -> Healed:
        return self._stream.healed

    @property
    def postgres_is_away(self) -> bool:
        return self._away

    async def run(self) -> None:
        """Write decisions until cancelled; then finish the batch in flight within 5 s, while the pool is open."""
        self._stop.clear()
        try:
            await self._finish_own_pending()
            while True:
                began = time.monotonic()
                entries = await self._claim_and_trim() or await self._stream.read(BATCH_ROWS)
                await self._finish(entries)
                if len(entries) < BATCH_ROWS:
                    await asyncio.sleep(max(0.0, began + _REST_S - time.monotonic()))
        except asyncio.CancelledError:
            # A read that was cut off may have been answered: no other sink would claim its entries for a while.
            self._stop.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._finish_own_pending()
            raise
        finally:
            await self._stream.leave()

    async def _finish_own_pending(self) -> None:
        after = "0-0"
        while entries := await self._stream.own_pending(after, BATCH_ROWS):
            await self._finish(entries)
            after = entries[-1].id

    async def _claim_and_trim(self) -> list[Entry]:
        """Every few seconds: trim, read the lag, and claim what an expired sink left pending."""
        if time.monotonic() < self._next_upkeep:
            return []
        self.counts.trimmed += await self._stream.trim()
        self._lag = await self._stream.lag()
        claimed = await self._stream.claim(BATCH_ROWS)
        if not claimed:  # else there may be more: claim again next time
            self._next_upkeep = time.monotonic() + min(UPKEEP_EVERY_S, self._claim_every_s)
        return claimed

    async def _finish(self, entries: Sequence[Entry]) -> None:
        """Persist the entries, also when cancelled meanwhile."""
        if not entries:
            return
        work = asyncio.create_task(self._persist(entries))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set()
            await asyncio.wait({work}, timeout=_GRACE_S)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _persist(self, entries: Sequence[Entry]) -> None:
        """Write, set aside what is refused, acknowledge. When stopping, the rest stays pending."""
        rows: list[Row] = []
        for entry in entries:
            envelope = entry.fields.get(b"envelope", entry.fields.get(b"data"))
            if envelope is not None:
                rows.append((entry.id, envelope))
            elif entry.fields:
                await self._set_aside(entry.id, b"", "the entry has no field envelope")
            else:  # pending here, but trimmed from the stream
                await self._stream.count_lost(entry.id)
        for batch in batches(rows):
            if not await self._write(batch):
                return

    async def _write(self, rows: Sequence[Row]) -> bool:
        """Write and acknowledge the rows, halving what is refused. False: stopped before Postgres took them."""
        backoff = Backoff(*POSTGRES_S)
        while True:
            try:
                async with self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection:
                    status = await connection.execute(_INSERT, [envelope for _, envelope in rows])
            except POSTGRES_ERRORS as error:
                if (sqlstate(error) or "")[:2] in _REFUSED_CLASSES:
                    return await self._halve(rows, error)
                if self._stop.is_set():
                    return False
                await self._note_away(error)
                await backoff.wait(self._stop)
            else:
                self._note_written(len(rows), int(status.rpartition(" ")[2]))
                await self._stream.acknowledge([entry_id for entry_id, _ in rows])
                return True

    async def _halve(self, rows: Sequence[Row], error: Exception) -> bool:
        if len(rows) > 1:
            middle = len(rows) // 2
            return await self._write(rows[:middle]) and await self._write(rows[middle:])
        why = str(error).partition("\n")[0][:500]
        ((entry_id, envelope),) = rows
        if await self._set_aside(entry_id, envelope, f"{sqlstate(error)} {why}"):
            log.warning("decision entry %s is set aside: %s", entry_id, reason(error))
        return True

    async def _set_aside(self, entry_id: str, envelope: bytes, why: str) -> bool:
        is_taken = await self._stream.set_aside(entry_id, envelope, why)
        if is_taken:
            self.counts.set_aside += 1
        else:
            self.counts.held += 1
        return is_taken

    async def _note_away(self, error: Exception) -> None:
        if not self._away:
            log.warning("decisions wait on the bus: %s", reason(error))
        self._away = True
        self._lag = await self._stream.lag()

    def _note_written(self, sent: int, inserted: int) -> None:
        if self._away:
            log.warning("Postgres takes decisions again")
        self._away = False
        self.counts.persisted += inserted
        self.counts.repeated += sent - inserted


def batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = size = 0
    for index, (_, envelope) in enumerate(rows):
        if index > start and size + len(envelope) > BATCH_BYTES:
            yield rows[start:index]
            start, size = index, 0
        size += len(envelope)
    if start < len(rows):
        yield rows[start:]
