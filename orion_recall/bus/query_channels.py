"""Adds queries heard on channels to the query stream, each once among all workers.

The queue is in this process's memory, so it is bounded: while it is full the listener waits, and the server keeps
what comes. What the bus refuses for `TRIED_S` is dropped, counted and logged.

An id is remembered for `SEEN_S` after its message was added. A message that may have been published longer ago than
`ENTERS_WITHIN_S`, by the server's clock, is not added: another worker may have added it, and its id be forgotten.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, NamedTuple, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from orion_recall.bus.bounded import HEAD_BYTES, TAIL_BYTES, has_more_values, most_values
from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.bus.envelope import LEFT_OUT_BYTES, LEFT_OUT_HEAD, LEFT_OUT_TAIL
from orion_recall.tasks import BUS_S, Backoff, Sleep, cancel, sleep

log = logging.getLogger("orion_recall.bus")

_SCRIPT = files("orion_recall.bus").joinpath("enter.lua").read_text("utf-8")
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

# The difference allows for two clocks, when a replica becomes the master.
SEEN_S, ENTERS_WITHIN_S = 60.0, 50.0
# How long a message is retried while the bus refuses, unless its sender waits for less.
TRIED_S = 30.0
# Above this the listener waits.
_FULL, _FULL_BYTES = 500, 16 << 20
_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE = 256, 4 << 20
# Every worker reads every message for its id, between recalls: 8 MB of brackets would take a second of each.
_MOST_PARSED_BYTES = 256 << 10
_MOST_PARSED_VALUES = most_values(_MOST_PARSED_BYTES)
_PLAIN_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


class _Published(NamedTuple):
    seen_id: str
    fields: tuple[bytes | str, ...]
    size: int
    give_up_at: float
    deadline_ms: int


class PublishedQueries:
    """Adds messages to `stream`: `run` sends until `finish` was called and the queue is empty."""

    def __init__(
        self,
        redis: Redis,
        *,
        stream: str,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = sleep,
    ) -> None:
        self.counts: dict[str, int] = {"received": 0, "entered": 0, "duplicate": 0, "dropped": 0}
        self._redis, self._stream, self._max_bytes, self._clock = redis, stream, max_bytes, clock
        self._backoff = Backoff(*BUS_S, sleep=sleep)
        self._waiting: deque[_Published] = deque()
        self._waiting_bytes = 0
        self._changed, self._sent = asyncio.Event(), asyncio.Event()
        self._finishing = self._is_dropping = False

    async def room(self) -> None:
        while len(self._waiting) >= _FULL or self._waiting_bytes >= _FULL_BYTES:
            self._sent.clear()
            await self._sent.wait()

    async def server_ms(self) -> int:
        seconds, micros = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
        return seconds * 1000 + micros // 1000

    def take(self, channel: bytes, data: bytes, *, since_ms: int) -> None:
        """Queue one message that was published at `since_ms` or later; of one too large its size and ends."""
        self.counts["received"] += 1
        content: tuple[bytes | str, ...] = ("envelope", data)
        if len(data) <= self._max_bytes:
            seen_id, ttl_s = _id_and_ttl(data)
        else:
            seen_id, ttl_s = _digest(b"%d:%b%b" % (len(data), data[:HEAD_BYTES], data[-TAIL_BYTES:])), TRIED_S
            most = self._max_bytes
            head, tail = data[: min(HEAD_BYTES, most // 2)], data[-min(TAIL_BYTES, most // 4) :]
            content = LEFT_OUT_BYTES, str(len(data)), LEFT_OUT_HEAD, head, LEFT_OUT_TAIL, tail
        give_up_at, deadline_ms = self._clock() + min(ttl_s, TRIED_S), since_ms + int(ENTERS_WITHIN_S * 1000)
        size = sum(len(part) for part in content)
        self._waiting.append(_Published(seen_id, (*content, "channel", channel), size, give_up_at, deadline_ms))
        self._waiting_bytes += size
        self._changed.set()

    def finish(self) -> None:
        """Take nothing more; `run` returns when all is added or dropped."""
        self._finishing = True
        self._changed.set()

    async def run(self) -> None:
        """Send what was taken, in order."""
        while self._waiting or not self._finishing:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            refusal = await self._send(self._next_batch())
            self._sent.set()
            if refusal is None:
                self._backoff.reset()
                continue
            if self._backoff.is_first:
                log.warning("%d published queries wait for %s: %s", len(self._waiting), self._stream, refusal)
            await self._backoff.wait()

    def _next_batch(self) -> list[_Published]:
        batch: list[_Published] = []
        size = 0
        while self._waiting and len(batch) < _MOST_AT_ONCE:
            size += self._waiting[0].size
            if batch and size > _MOST_BYTES_AT_ONCE:
                break
            batch.append(self._waiting.popleft())
            self._waiting_bytes -= batch[-1].size
        return batch

    async def _send(self, batch: Sequence[_Published]) -> str | None:
        """Send one pipeline; what was not added is queued again. The reason when the server refused, or None."""
        pipeline = self._redis.pipeline(transaction=False)
        for one in batch:
            key = f"{self._stream}:seen:{one.seen_id}"
            pipeline.evalsha(_SHA, 2, self._stream, key, int(SEEN_S * 1000), one.deadline_ms, *one.fields)
        try:
            results = await pipeline.execute(raise_on_error=False)
            if any(isinstance(result, NoScriptError) for result in results):
                await self._redis.script_load(_SCRIPT)
        except (*BUS_AWAY, RedisError) as error:
            self._put_back(batch)
            return f"the bus is away ({type(error).__name__})" if isinstance(error, BUS_AWAY) else str(error)
        left = [one for one, result in zip(batch, results, strict=True) if isinstance(result, Exception)]
        entered, duplicates = results.count(1), results.count(0)
        self.counts["entered"] += entered
        self.counts["duplicate"] += duplicates
        if entered + duplicates == len(batch):
            self._is_dropping = False
        self._drop(
            results.count(-1), "this worker hears them too late, as after a stop; other workers may have added them"
        )
        refusals = [one for one in results if isinstance(one, Exception) and not isinstance(one, NoScriptError)]
        self._put_back(left, tried=bool(refusals))
        return f"the bus refused ({refusals[0]})" if refusals else None

    def _put_back(self, left: Sequence[_Published], *, tried: bool = True) -> None:
        now = self._clock()
        kept = [one for one in left if not tried or now < one.give_up_at]
        self._waiting.extendleft(reversed(kept))
        self._waiting_bytes += sum(one.size for one in kept)
        self._drop(len(left) - len(kept), "they could not be added to the stream in time")

    def _drop(self, count: int, why: str) -> None:
        self.counts["dropped"] += count
        if count and not self._is_dropping:
            self._is_dropping = True
            log.error("published queries are dropped, for %s: %s", self._stream, why)


def _id_and_ttl(data: bytes) -> tuple[str, float]:
    """The envelope's id, or a hash of the bytes where there is none to be read; and how long its sender waits."""
    if len(data) > _MOST_PARSED_BYTES or has_more_values(data, _MOST_PARSED_VALUES):
        return _digest(data), TRIED_S
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
    envelope = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    message_id, ttl_ms = envelope.get("id"), envelope.get("ttl_ms")
    ttl_s = ttl_ms / 1000 if isinstance(ttl_ms, int) and 0 <= ttl_ms < TRIED_S * 1000 else TRIED_S
    if not isinstance(message_id, str) or not message_id.strip():
        return _digest(data), ttl_s
    plain = message_id.strip()
    return (plain if _PLAIN_ID.fullmatch(plain) else _digest(plain.encode("utf-8", "surrogatepass"))), ttl_s


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


POLL_S = 0.5
PING_S = 5.0
# A peer that vanished silently answers no PING: after this silence the connection is given up.
_SILENCE_S = 20.0
_ANSWER_S = 2.0
# A subscription that lasted longer than this had been restored: the next wait is a first one.
_HELD_S = 4.0


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
        self.queries = queries
        self._url, self._channels = url, tuple(dict.fromkeys(channels))
        # Set once the server has answered the first subscription, or `run` has ended.
        self.opened, self._stopping = asyncio.Event(), asyncio.Event()
        self._clock, self._heard_at = clock, clock()
        self._pinged_at, self._since_ms = clock(), 0

    def stop(self) -> None:
        """Unsubscribe; `run` returns when what was heard before is added to the stream."""
        self._stopping.set()

    async def run(self) -> None:
        if not self._channels:
            self.opened.set()
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
            self.opened.set()
            await cancel(listening, entering)

    async def _listen(self) -> None:
        backoff = Backoff(*BUS_S)
        async with connect(self._url, blocking=True) as redis:
            while not self._stopping.is_set():
                began = self._clock()
                try:
                    await self._listen_on(redis.pubsub())  # pyright: ignore[reportUnknownMemberType]
                except (*BUS_AWAY, RedisError) as error:
                    if self._clock() - began > _HELD_S:
                        backoff.reset()
                    if backoff.is_first:
                        log.warning("the query channels are not heard: %s; subscribing again", error)
                    await backoff.wait(self._stopping)

    async def _listen_on(self, pubsub: Any) -> None:
        try:
            self._pinged_at, self._since_ms = self._clock(), await self.queries.server_ms()
            await self._subscribe(pubsub)
            if self.subscribed:
                await self._receive(pubsub)
            else:
                await self._stopping.wait()
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
        self.opened.set()

    async def _receive(self, pubsub: Any) -> None:
        while not self._stopping.is_set():
            told, now = await self._next(pubsub), self._clock()
            if told is None and now - self._heard_at > _SILENCE_S:
                raise TimeoutError("the server has said nothing")
            if now - self._pinged_at >= PING_S:
                self._pinged_at = now
                await self._ping(pubsub)
        try:  # all that the server sent before its answer is received
            await pubsub.unsubscribe(*self.subscribed)
            for _ in self.subscribed:
                await self._until_answer(pubsub, "unsubscribe")
        except BUS_AWAY as error:
            log.debug("unsubscribing: %s", error)

    async def _ping(self, pubsub: Any) -> None:
        try:
            now_ms = await self.queries.server_ms()
        except (*BUS_AWAY, RedisError) as error:
            log.debug("no PING on the subscription: %s", error)  # the last time holds
        else:
            await pubsub.ping(str(now_ms))

    async def _until_answer(self, pubsub: Any, what: str, channel: str | None = None) -> None:
        asked_at = self._clock()
        while self._clock() - max(asked_at, self._heard_at) < _ANSWER_S:  # much may come before the answer
            told = await self._next(pubsub)
            if told is not None and told["type"] == what and channel in (None, told["channel"].decode()):
                return
        raise TimeoutError(f"no answer to {what}")

    async def _next(self, pubsub: Any) -> dict[str, Any] | None:
        began = self._clock()
        await self.queries.room()
        self._heard_at += self._clock() - began  # nothing was read meanwhile
        told: dict[str, Any] | None = await pubsub.get_message(timeout=POLL_S)
        if told is not None:
            self._heard_at = self._clock()
            if told["type"] == "pong":
                self._since_ms = int(told["data"])
            if told["type"] == "message":
                self.queries.take(told["channel"], told["data"], since_ms=self._since_ms)
                await asyncio.sleep(0)  # what was received already is taken without a wait
        return told
