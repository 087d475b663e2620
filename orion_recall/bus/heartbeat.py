"""Who is there: every worker keeps a card on the bus, which goes when the worker does.

A card is a hash with a short life, found by the worker's consumer name. It is for people and programs that look;
nothing that is served depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY

log = logging.getLogger("orion_recall.bus")

EVERY_S = 2.0
LIFE_S = 10


class Presence:
    """One worker's card under `key`: `run()` keeps it, until cancelled."""

    def __init__(self, redis: Redis, key: str, card: Callable[[], Mapping[str, str]]) -> None:
        self._redis, self._key, self._card = redis, key, card
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Write the card now: it says something new."""
        self._wake.set()

    async def appear(self) -> None:
        """Write the card before anybody is told that the worker is there."""
        await self._write()

    async def run(self) -> None:
        """Write the card every two seconds and whenever woken; take it away at the end."""
        try:
            while True:
                await self._write()
                try:
                    async with asyncio.timeout(EVERY_S):
                        await self._wake.wait()
                except TimeoutError:
                    continue
                self._wake.clear()
        finally:
            await self._leave()

    async def _write(self) -> None:
        card: dict[Any, Any] = dict(self._card())
        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.delete(self._key)  # fields that the card no longer has
                pipeline.hset(self._key, mapping=card)
                pipeline.expire(self._key, LIFE_S)
                await pipeline.execute()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("the card %s is not written: %s", self._key, error)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(1):
                await self._redis.delete(self._key)
        except (*BUS_AWAY, RedisError, TimeoutError) as error:
            log.debug("the card %s stays until it expires: %s", self._key, error)


async def read_cards(redis: Redis, keys: Sequence[str]) -> list[dict[str, str] | None]:
    """The cards under the keys, in order; None where there is none, or something else. RedisError when away."""
    pipeline = redis.pipeline(transaction=False)
    for key in keys:
        pipeline.hgetall(key)
    found = cast("list[dict[bytes, bytes] | Exception]", await pipeline.execute(raise_on_error=False))
    return [
        {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in card.items()}
        if isinstance(card, dict) and card
        else None
        for card in found
    ]
