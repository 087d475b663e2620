"""Heartbeats: the state of every worker as a hash on the bus, which expires when the worker is gone.

It is found by the worker's consumer name. It is for people and monitoring; nothing that is served depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.tasks import sleep

log = logging.getLogger("orion_recall.bus")

EVERY_S = 2.0
LIFE_S = 10


class Heartbeat:
    """One worker's heartbeat under `key`: `run()` writes its `fields` until cancelled."""

    def __init__(self, redis: Redis, key: str, fields: Callable[[], Mapping[str, str]]) -> None:
        self._redis, self._key, self._fields = redis, key, fields
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Write now: a field has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Write every two seconds and when woken; delete it at the end."""
        try:
            while True:
                await self.write()
                if await sleep(EVERY_S, self._wake):
                    self._wake.clear()
        finally:
            await self._leave()

    async def write(self) -> None:
        """Write it once; while the bus is away, nothing."""
        fields: dict[Any, Any] = dict(self._fields())
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.delete(self._key)  # fields that it no longer has
                pipeline.hset(self._key, mapping=fields)
                pipeline.expire(self._key, LIFE_S)
                await pipeline.execute()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("the heartbeat %s is not written: %s", self._key, error)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(1):
                await self._redis.delete(self._key)
        except (*BUS_AWAY, RedisError, TimeoutError) as error:
            log.debug("the heartbeat %s stays until it expires: %s", self._key, error)


async def read_heartbeats(redis: Redis, keys: Sequence[str]) -> list[dict[str, str] | None]:
    """The heartbeats under the keys, in order; None where there is none. RedisError while the bus is away."""
    pipeline = redis.pipeline(transaction=False)
    for key in keys:
        pipeline.hgetall(key)
    found = cast("list[dict[bytes, bytes] | Exception]", await pipeline.execute(raise_on_error=False))
    return [
        {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in fields.items()}
        if isinstance(fields, dict) and fields
        else None
        for fields in found
    ]
