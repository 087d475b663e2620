"""Background work of a worker: access counts, retention of receipts and dead letters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import LiteralString

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.errors import RecordError
from orion_recall.memory.record.record import Record
from orion_recall.postgres.periods import OF_TENANT, OldRows

bus_log, log = logging.getLogger("orion_recall.bus"), logging.getLogger("orion_recall.memory")

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
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
        SELECT tenant, idempotency_key FROM memory_requests WHERE at < $1 AND {OF_TENANT} ORDER BY at LIMIT $2
    ) RETURNING 1
)
SELECT count(*) AS count FROM gone
"""  # noqa: S608 (of constants)
OLD_REQUESTS = OldRows(what="request receipts", lock="requests", delete=_DELETE, log=log)


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
