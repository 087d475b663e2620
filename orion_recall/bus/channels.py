"""Query channels: pub/sub channels on which executors of the mesh publish queries.

Every worker subscribes and adds what it hears to the query stream, where it is one entry, whichever worker was
first (`published.py`). The subscription has its own connection, and is made again when that is lost.

A message does not say when it was published, and it may have waited in the socket or the server while this worker
was stopped or busy. So every few seconds a PING carries the server's time: what is received after its answer was
published after that time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from redis.exceptions import RedisError, ResponseError

from orion_recall.backoff import BUS_S, Backoff
from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.bus.published import PublishedQueries
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.bus")

POLL_S = 0.5
PING_S = 5.0
# A peer that vanished silently answers no PING: after this silence the connection is given up.
_SILENCE_S = 20.0
_ANSWER_S = 2.0
# A subscription that lasted longer than this had been restored: the next wait is a first one.
_HELD_S = 4.0
# Taking received messages does not suspend: at most so many before the event loop runs again.
_MOST_PER_TURN, _BYTES_LIKE_ONE_MORE = 16, 16 << 10


class QueryChannels:
    """A subscription to `channels` from `run` until `stop`; without channels it only waits for `stop`."""

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
        self._pinged_at, self._since_ms, self._taken_in_turn = clock(), 0, 0

    async def opened(self) -> None:
        """Wait until the server has answered the first subscription, or `run` has ended."""
        await self._opened.wait()

    def stop(self) -> None:
        """Unsubscribe; `run` returns when what was heard before is added to the stream."""
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
            if not entering.done():  # or the listener might wait for room for ever
                await listening
                self.queries.finish()
            await entering
        finally:
            self._opened.set()
            await cancel(listening, entering)

    async def _listen(self) -> None:
        backoff = Backoff(*BUS_S)
        async with connect(self._url, blocking=True) as redis:
            while not self._stopping.is_set():
                began = self._clock()
                try:
                    await self._listen_on(redis.pubsub())  # pyright: ignore[reportUnknownMemberType]
                except (*BUS_AWAY, RedisError) as error:
                    self.reconnects += 1
                    if self._clock() - began > _HELD_S:
                        backoff.reset()
                    if backoff.is_first:
                        log.warning("the query channels are not heard: %s; subscribing again", error)
                    await backoff.wait(self._stopping)

    async def _listen_on(self, pubsub: Any) -> None:
        try:
            self._pinged_at, self._since_ms = self._clock(), await self.queries.server_ms()
            await self._subscribe(pubsub)
            await self._receive(pubsub)
        finally:
            self.subscribed = frozenset()
            await pubsub.aclose()

    async def _subscribe(self, pubsub: Any) -> None:
        """Subscribe to each channel alone: one that is not permitted does not stop the others."""
        for channel in self._channels:
            try:
                await pubsub.subscribe(channel)
                await self._until_answer(pubsub, "subscribe", channel)
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
        while not self._stopping.is_set():
            told, now = await self._next(pubsub), self._clock()
            if told is None and now - self._heard_at > _SILENCE_S:
                raise TimeoutError("the server has said nothing")
            if now - self._pinged_at >= PING_S:
                self._pinged_at = now
                await self._ping(pubsub)
        await self._unsubscribe(pubsub)

    async def _ping(self, pubsub: Any) -> None:
        """Send a PING with the server's time, whose answer comes back in order with the messages."""
        try:
            now_ms = await self.queries.server_ms()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("no PING on the subscription: %s", error)  # the last time holds
        else:
            await pubsub.ping(str(now_ms))

    async def _unsubscribe(self, pubsub: Any) -> None:
        """Unsubscribe; returns when all that the server sent before its answer has been received."""
        try:
            await pubsub.unsubscribe(*self.subscribed)
            for _ in self.subscribed:
                await self._until_answer(pubsub, "unsubscribe")
        except BUS_AWAY as error:
            log.debug("unsubscribing: %s", error)

    async def _until_answer(self, pubsub: Any, what: str, channel: str | None = None) -> None:
        asked_at = self._clock()
        while self._clock() - max(asked_at, self._heard_at) < _ANSWER_S:  # much may come before the answer
            told = await self._next(pubsub)
            if told is not None and told["type"] == what and channel in (None, told["channel"].decode()):
                return
        raise TimeoutError(f"no answer to {what}")

    async def _next(self, pubsub: Any) -> dict[str, Any] | None:
        """The next message of the server; a published query is queued."""
        if self.queries.is_full:
            await self.queries.room()
            self._heard_at = self._clock()  # nothing was read meanwhile
        told: dict[str, Any] | None = await pubsub.get_message(timeout=POLL_S)
        if told is not None:
            self._heard_at = self._clock()
            if told["type"] == "pong":
                self._since_ms = int(told["data"])
            if told["type"] == "message":
                self.queries.take(told["channel"], told["data"], since_ms=self._since_ms)
                await self._yield_after(len(told["data"]))
        return told

    async def _yield_after(self, size: int) -> None:
        self._taken_in_turn += 1 + size // _BYTES_LIKE_ONE_MORE
        if self._taken_in_turn >= _MOST_PER_TURN:
            self._taken_in_turn = 0
            await asyncio.sleep(0)
