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
from orion_recall.postgres.periods import OF_TENANT, OldRows

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
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
        SELECT tenant, idempotency_key FROM memory_requests WHERE at < $1 AND {OF_TENANT} ORDER BY at LIMIT $2
    ) RETURNING 1
)
SELECT count(*) AS count FROM gone
"""  # noqa: S608 (of constants)
OLD_REQUESTS = OldRows(what="request receipts", lock="requests", delete=_DELETE, log=log)


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
