"""Deletes dead letters that are older than some days."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from redis.asyncio import Redis
from redis.exceptions import RedisError

log = logging.getLogger("orion_recall.bus")

_EVERY_S = 600.0


class DeadLetterRetention:
    """Trims the streams of dead letters: `run()` until cancelled. Every worker may run one.

    `now` is the clock of the bus, which gave the letters their ids.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Iterable[str],
        days: int,
        now: Callable[[], float],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        self._redis, self._streams, self._days, self._now = redis, tuple(streams), days, now
        self._every_s = every_s

    async def run(self) -> None:
        """Trims every ten minutes."""
        while True:
            try:
                await self.trim()
            except (RedisError, OSError) as error:
                log.warning("old dead letters stay for now: %s", error)
            await asyncio.sleep(self._every_s)

    async def trim(self) -> int:
        """Trims once; how many letters went."""
        oldest = int((self._now() - self._days * 86_400) * 1000)
        gone = 0
        for stream in self._streams:
            gone += int(await self._redis.xtrim(stream, minid=str(max(oldest, 0)), approximate=False))
        if gone:
            log.info("%d dead letters older than %d days are deleted", gone, self._days)
        return gone
