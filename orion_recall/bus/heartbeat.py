"""Heartbeats: the state of every worker as a hash on the bus, which expires when the worker is gone.

It is found by the worker's consumer name. It is for people and monitoring; nothing that is served depends on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.tasks import in_time, sleep

log = logging.getLogger("orion_recall.bus")

EVERY_S = 2.0
LIFE_S = 10
# A field of the heartbeat while the bus refuses messages for want of memory.
BUS_FULL = "bus_full"

# Allowed when the memory is full: a worker that serves must not look as if it were gone.
_WRITE_WHEN_FULL = """#!lua flags=allow-oom
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""


class Heartbeat:
    """One worker's heartbeat under `key`: `run()` writes its `fields` until cancelled."""

    def __init__(self, redis: Redis, key: str, fields: Callable[[], Mapping[str, str]]) -> None:
        self._redis, self._key, self._fields = redis, key, fields
        self._wake = asyncio.Event()
        self._write_when_full = redis.register_script(_WRITE_WHEN_FULL)
        self.is_full = False

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Write every two seconds and when woken; delete it at the end."""
        try:
            while True:
                await self.write()
                if await sleep(EVERY_S, self._wake):
                    self._wake.clear()
        finally:
            with contextlib.suppress(*BUS_AWAY, RedisError):  # then it stays until it expires
                await in_time(self._redis.delete(self._key), 1)

    async def write(self) -> None:
        """Write it once; while the bus is away, nothing."""
        fields: dict[Any, Any] = dict(self._fields())
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.delete(self._key)  # fields that it no longer has
                pipeline.hset(self._key, mapping=fields)
                pipeline.expire(self._key, LIFE_S)
                await pipeline.execute()
            self._note_room(is_full=False)
        except OutOfMemoryError:
            self._note_room(is_full=True)
            values = [part for field in (*fields.items(), (BUS_FULL, "1")) for part in field]
            with contextlib.suppress(*BUS_AWAY, RedisError):
                await self._write_when_full(keys=[self._key], args=[LIFE_S, *values])
        except (*BUS_AWAY, RedisError) as error:
            log.debug("the heartbeat %s is not written: %s", self._key, error)

    def _note_room(self, *, is_full: bool) -> None:
        if is_full and not self.is_full:
            log.error(
                "the bus is full: it refuses callers until there is room. Its memory is (then raise "
                "ORION_BUS_MEMORY_BYTES, or maxmemory of a server of your own, or find what fills it), or the disk "
                "of an embedded bus is short"
            )
        elif self.is_full and not is_full:
            log.warning("the bus has room again: it takes messages")
        self.is_full = is_full


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
