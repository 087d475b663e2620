"""Adds queries heard on channels to the query stream, each once among all workers.

The queue is in this process's memory, so it is bounded in number, bytes and time. What cannot be added is dropped,
counted and logged. While the bus takes entries nothing is dropped: `room` makes the listener wait.

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from orion_recall.backoff import BUS_S, Backoff, Sleep
from orion_recall.bus.bounded.limits import has_more_values, most_values
from orion_recall.bus.bounded.sender import HEAD_BYTES, TAIL_BYTES
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.envelope import LEFT_OUT_BYTES, LEFT_OUT_HEAD, LEFT_OUT_TAIL
from orion_recall.tasks import sleep

log = logging.getLogger("orion_recall.bus")

_SCRIPT = files("orion_recall.bus").joinpath("enter.lua").read_text("utf-8")
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

# The difference allows for two clocks, when a replica becomes the master.
SEEN_S, ENTERS_WITHIN_S = 60.0, 50.0
# How long a message is retried while the bus refuses, unless its sender waits for less.
TRIED_S = 30.0
# Above this the listener waits, as long as the bus takes entries.
_FULL, _FULL_BYTES = 500, 16 << 20
_MOST_WAITING, _MOST_WAITING_BYTES = 1000, 64 << 20
_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE = 256, 4 << 20
# Every worker reads every message for its id, between recalls: 8 MB of brackets would take a second of each.
_MOST_PARSED_BYTES = 256 << 10
_MOST_PARSED_VALUES = most_values(_MOST_PARSED_BYTES)
_PLAIN_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


@dataclass(slots=True)
class PublishedCounts:
    """Counts of published messages by outcome; `duplicates` had been added before, by any worker."""

    received: int = 0
    entered: int = 0
    duplicates: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """One message, as the entry to add.

    `give_up_at` is by this process's clock, `deadline_ms` by the server's.
    """

    seen_id: str
    fields: tuple[bytes | str, ...]
    size: int
    give_up_at: float
    deadline_ms: int


class PublishedQueries:
    """Adds messages to `stream`. `take` never waits, `room` does.

    `run` sends until `finish` was called and the queue is empty.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        stream: str,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = sleep,
    ) -> None:
        self.counts = PublishedCounts()
        self._redis, self._stream, self._max_bytes, self._clock = redis, stream, max_bytes, clock
        self._backoff = Backoff(*BUS_S, sleep=sleep)
        self._waiting: deque[_Published] = deque()
        self._waiting_bytes = 0
        self._changed, self._sent = asyncio.Event(), asyncio.Event()
        self._finishing = self._is_dropping = self._is_refused = False

    @property
    def waiting(self) -> int:
        """Messages that are not in the stream yet."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether to wait for `room`. Not while the bus refuses: the server would buffer without limit."""
        many = len(self._waiting) >= _FULL or self._waiting_bytes >= _FULL_BYTES
        return many and not self._is_refused

    async def room(self) -> None:
        """Wait until it is no longer full: enough was sent, or the bus refuses."""
        while self.is_full:
            self._sent.clear()
            await self._sent.wait()

    async def server_ms(self) -> int:
        """Epoch milliseconds by the server's clock, rounded down."""
        seconds, micros = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
        return seconds * 1000 + micros // 1000

    def take(self, channel: bytes, data: bytes, *, since_ms: int) -> None:
        """Queue one message that was published at `since_ms` by the server's clock or later.

        Of a message that is too large only its size, its first and its last bytes are kept.
        """
        self.counts.received += 1
        is_whole = len(data) <= self._max_bytes
        seen_id, ttl_s = _id_and_ttl(data) if is_whole else (_digest_of_ends(data), TRIED_S)
        content = ("envelope", data) if is_whole else _left_out(data, self._max_bytes)
        self._waiting.append(
            _Published(
                seen_id=seen_id,
                fields=(*content, "channel", channel),
                size=sum(len(part) for part in content),
                give_up_at=self._clock() + min(ttl_s, TRIED_S),
                deadline_ms=since_ms + int(ENTERS_WITHIN_S * 1000),
            )
        )
        self._waiting_bytes += self._waiting[-1].size
        self._drop_oldest()
        self._changed.set()

    def finish(self) -> None:
        """Take nothing more; `run` returns when all is added or dropped."""
        self._finishing = True
        self._changed.set()

    async def run(self) -> None:
        """Send what was taken, in order."""
        while True:
            if not self._waiting:
                if self._finishing:
                    return
                self._changed.clear()
                await self._changed.wait()
                continue
            refusal = await self._send(self._next_batch())
            self._is_refused = refusal is not None
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
        self.counts.entered += entered
        self.counts.duplicates += duplicates
        if entered + duplicates == len(batch):
            self._is_dropping = False
        self._drop(
            results.count(-1), "this worker hears them too late, as after a stop; other workers may have added them"
        )
        refusals = [one for one in results if isinstance(one, Exception) and not isinstance(one, NoScriptError)]
        self._put_back(left, tried=bool(refusals))
        return f"the bus refused ({refusals[0]})" if refusals else None

    def _put_back(self, left: Sequence[_Published], *, tried: bool = True) -> None:
        """Queue them again, in front; drop those whose time is over, but not before their first attempt."""
        now = self._clock()
        kept = [one for one in left if not tried or now < one.give_up_at]
        self._waiting.extendleft(reversed(kept))
        self._waiting_bytes += sum(one.size for one in kept)
        self._drop(len(left) - len(kept), "they could not be added to the stream in time")
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        too_many = 0
        while len(self._waiting) > _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES:
            self._waiting_bytes -= self._waiting.popleft().size
            too_many += 1
        self._drop(too_many, f"no more than {_MOST_WAITING} may wait, of {_MOST_WAITING_BYTES >> 20} MiB together")

    def _drop(self, count: int, why: str) -> None:
        self.counts.dropped += count
        if count and not self._is_dropping:
            self._is_dropping = True
            log.error("published queries are dropped, for %s: %s", self._stream, why)


def _id_and_ttl(data: bytes) -> tuple[str, float]:
    """The message's id for deduplication, and how long its sender waits, in seconds.

    The id is the envelope's; without one, or where the message is too large to parse, a hash of the bytes.
    """
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


def _left_out(data: bytes, max_bytes: int) -> tuple[bytes | str, ...]:
    """What is added of a message that is too large: enough to answer its sender, and less than it may have."""
    head, tail = data[: min(HEAD_BYTES, max_bytes // 2)], data[-min(TAIL_BYTES, max_bytes // 4) :]
    return LEFT_OUT_BYTES, str(len(data)), LEFT_OUT_HEAD, head, LEFT_OUT_TAIL, tail


def _digest_of_ends(data: bytes) -> str:
    """Of sixty megabytes a hash would hold up the recalls."""
    return _digest(b"%d:%b%b" % (len(data), data[:HEAD_BYTES], data[-TAIL_BYTES:]))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
