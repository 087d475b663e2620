"""Queries that are published on channels, as executors of the mesh send them.

Every worker listens, and puts what it hears into the query stream; there it is one entry, whoever was first
(`published.py`). The subscription has a connection of its own, and is made again whenever that is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from redis.exceptions import ConnectionError, RedisError, ResponseError

from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.bus.published import PublishedQueries
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.bus")

POLL_S = 0.5
# A peer that has vanished without a word is asked after this silence, and must answer within as long again.
_SILENCE_S = 10.0
_ANSWER_S = 2.0
# Together with the time for which a message is tried (30 s) less than the time for which its id is known (60 s).
STOOD_STILL_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class QueryChannels:
    """Listens on `channels` from `run` until `stop`; without channels it only waits for `stop`."""

    def __init__(
        self,
        url: str,
        channels: Iterable[str],
        queries: PublishedQueries,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.subscribed: frozenset[str] = frozenset()
        self.reconnects = 0
        self.queries = queries
        self._url, self._channels = url, tuple(dict.fromkeys(channels))
        self._opened, self._stopping = asyncio.Event(), asyncio.Event()
        self._clock, self._heard_at = clock, clock()

    async def opened(self) -> None:
        """Returns when the server has answered the first subscription, or this has ended."""
        await self._opened.wait()

    def stop(self) -> None:
        """Unsubscribe; `run` returns when what was heard before is in the stream."""
        self._stopping.set()

    async def run(self) -> None:
        """Listen until `stop()`."""
        if not self._channels:
            self._opened.set()
            await self._stopping.wait()
            return
        listening, entering = asyncio.create_task(self._listen()), asyncio.create_task(self.queries.run())
        try:
            await asyncio.wait([listening, entering], return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await listening
            self.queries.finish()
            await entering
        finally:
            self._opened.set()
            await cancel(listening, entering)

    async def _listen(self) -> None:
        pause_s = _FIRST_PAUSE_S
        async with connect(self._url, blocking=True) as redis:
            while not self._stopping.is_set():
                began = self._clock()
                try:
                    await self._listen_on(redis.pubsub())  # pyright: ignore[reportUnknownMemberType]
                except (*BUS_AWAY, RedisError) as error:
                    self.reconnects += 1
                    if self._clock() - began > 2 * _LONGEST_PAUSE_S:
                        pause_s = _FIRST_PAUSE_S  # it held
                    if pause_s == _FIRST_PAUSE_S:
                        log.warning("the query channels are not heard: %s; subscribing again", error)
                    await self._stops_within(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _listen_on(self, pubsub: Any) -> None:
        try:
            await self._subscribe(pubsub)
            await self._receive(pubsub)
        finally:
            self.subscribed = frozenset()
            await pubsub.aclose()

    async def _subscribe(self, pubsub: Any) -> None:
        """Subscribe to each channel alone: one that is closed to us does not keep the others from being heard."""
        for channel in self._channels:
            try:
                await pubsub.subscribe(channel)
                await self._until_told(pubsub, "subscribe", channel)
            except ResponseError as error:  # no permission, or a bus that knows no SUBSCRIBE
                log.error(  # noqa: TRY400 (the text says it all)
                    "queries published on %s are not heard: %s. Let the worker's user subscribe to it and start "
                    "the worker again, or leave it out of ORION_QUERY_CHANNELS",
                    channel,
                    error,
                )
            else:
                self.subscribed |= {channel}
        if self.subscribed:
            log.info("listening on %s", ", ".join(sorted(self.subscribed)))
        self._opened.set()

    async def _receive(self, pubsub: Any) -> None:
        if not self.subscribed:
            await self._stopping.wait()
            return
        asked = False
        while not self._stopping.is_set():
            if await self._next(pubsub) is not None:
                asked = False
                continue
            silent_s = self._clock() - self._heard_at
            if silent_s > 2 * _SILENCE_S:
                raise TimeoutError("the server has said nothing")
            if silent_s > _SILENCE_S and not asked:
                await pubsub.ping()
                asked = True
        await self._unsubscribe(pubsub)

    async def _unsubscribe(self, pubsub: Any) -> None:
        """What the server sent before its answer has been received when this returns."""
        try:
            await pubsub.unsubscribe(*self.subscribed)
            for _ in self.subscribed:
                await self._until_told(pubsub, "unsubscribe")
        except BUS_AWAY as error:
            log.debug("unsubscribing: %s", error)

    async def _until_told(self, pubsub: Any, what: str, channel: str | None = None) -> None:
        until = self._clock() + _ANSWER_S
        while self._clock() < until:
            told = await self._next(pubsub)
            if told is not None and told["type"] == what and channel in (None, told["channel"].decode()):
                return
        raise TimeoutError(f"no answer to {what}")

    async def _next(self, pubsub: Any) -> dict[str, Any] | None:
        """The next thing that the server says; a published query is taken on the way."""
        asked_at = self._clock()
        told: dict[str, Any] | None = await pubsub.get_message(timeout=POLL_S)
        now = self._clock()
        if now - asked_at > STOOD_STILL_S:
            # What waited in the socket meanwhile may have been served by others so long ago that nobody knows it.
            raise ConnectionError(f"this worker stood still for {now - asked_at:.0f} s")
        if told is not None:
            self._heard_at = now
            if told["type"] == "message":
                self.queries.take(told["channel"], told["data"])
        return told

    async def _stops_within(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
