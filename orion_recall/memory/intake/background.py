"""Background work of a worker: access counts, retention of receipts and dead letters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import LiteralString

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.errors import RecordError
from orion_recall.memory.record.record import Record
from orion_recall.postgres.periods import OF_TENANT, Period, Periods
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost

bus_log, log = logging.getLogger("orion_recall.bus"), logging.getLogger("orion_recall.memory")

_EVERY_S = 600.0


async def keep_dead_letters(redis: Redis, streams: Sequence[str], days: int, now: Callable[[], float]) -> None:
    """Trims the streams of dead letters until cancelled. Every worker may do it."""
    while True:
        try:
            if gone := await trim_dead_letters(redis, streams, now() - days * 86_400):
                bus_log.info("%d dead letters older than %d days are deleted", gone, days)
        except (RedisError, OSError) as error:
            bus_log.warning("old dead letters stay for now: %s", error)
        await asyncio.sleep(_EVERY_S)


async def trim_dead_letters(redis: Redis, streams: Sequence[str], before_s: float) -> int:
    oldest = str(max(int(before_s * 1000), 0))
    return sum([int(await redis.xtrim(one, minid=oldest, approximate=False)) for one in streams])


KEPT_DAYS = 7
_PAUSE_S = 0.2
# One worker at a time. To lock rows asks for the right to update them, which a worker has not.
_LOCK: LiteralString = "SELECT try_write_lock('requests')"
# By the clock of the database, which wrote the times.
_DELETE: LiteralString = f"""
DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
    SELECT tenant, idempotency_key FROM memory_requests
    WHERE at < now() - make_interval(days => $1) AND {OF_TENANT} ORDER BY at LIMIT $2
) RETURNING 1
"""  # noqa: S608 (of constants)
_A_WEEK = Periods(days=KEPT_DAYS)


async def keep_requests(
    pool: Pool, periods: Periods = _A_WEEK, *, every_s: float = _EVERY_S, batch_rows: int = 1000
) -> None:
    """Deletes receipts older than their tenants' days, until cancelled. Every worker may do it."""
    while True:
        try:
            for period in periods.each:
                deleted = batch_rows
                while deleted == batch_rows:
                    deleted = await _delete_batch(pool, period, batch_rows)
                    await asyncio.sleep(_PAUSE_S)
        except RecordError as error:
            if not is_connection_lost(error):
                log.error("old request receipts cannot be deleted: %s; it is tried again in ten minutes", error)  # noqa: TRY400 (the text says it all)
        await asyncio.sleep(every_s)


async def _delete_batch(pool: Pool, period: Period, most: int) -> int:
    async with borrow(pool, "deleting answers to old requests") as connection, connection.transaction():
        if not await connection.fetchval(_LOCK):
            return 0
        return len(await connection.fetch(_DELETE, period.days, most, period.tenant, period.but))


_MOST_IDS, _MOST_WAITING = 50, 100_000
_FLUSH_EVERY_S = 2.0


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
