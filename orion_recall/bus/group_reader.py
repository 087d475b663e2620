"""A member of a consumer group: reads new entries, claims those of expired consumers, and refreshes its own.

Every call repairs what it finds broken: it creates a missing stream or group again (from id 0, so that nothing
queued is lost) and waits for a lost server. Repairs are counted.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.tasks import BUS_S, Backoff

log = logging.getLogger("orion_recall.bus")
T = TypeVar("T")

BLOCK_MS = 1000
# What one call brings, judged by the entries of the last one: ten entries of 60 MB would be 600 MB at once.
_BYTES_AT_ONCE = 8 << 20
_MOST_FIELDS = 1000
_IDLE_CONSUMER_MS = 3_600_000
_LOOK_HOLDS_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a stream; `deliveries` counts its deliveries, this one included.

    `left_out` counts the fields that were not read: an entry that has very many is no message of ours.
    """

    id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    left_out: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.fields.values()))

    @property
    def added_at(self) -> float:
        """Epoch seconds by the server's clock when the entry was added, unless the sender chose its id."""
        return int(self.id.partition("-")[0]) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Entries of a stream that are not answered, when it was last looked at; times are the server's, in seconds.

    `oldest_at` is when the oldest of them was added, None when there is none.
    """

    count: int
    oldest_at: float | None
    looked_at: float

    def age_s(self, now: float) -> float:
        """How long the oldest has waited: as it was at the last look, or until now where that was long ago.

        Between two looks it may have been answered. While the bus does not answer, nothing is.
        """
        if self.oldest_at is None:
            return 0.0
        until = now if now - self.looked_at > _LOOK_HOLDS_S else self.looked_at
        return max(0.0, until - self.oldest_at)


# How fast two clocks may drift apart: quartz is wrong by less than a tenth of this.
_DRIFT = 500e-6
# The server tells whole microseconds, rounded down.
_TICK_S = 1e-6


class BusClock:
    """The time by the bus's server, which stamps every entry: it decides whether a ttl is over.

    Each time that it tells bounds the difference between its clock and this process's monotonic one: it was read
    after the question was sent and before the answer came. The bounds of many are narrow, however slow some were.
    """

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._low, self._high, self._as_of = -math.inf, math.inf, 0.0

    def began(self) -> float:
        return self._monotonic()

    def told(self, server_s: float, *, asked_at: float) -> None:
        """Take what the server has just told, in epoch seconds, after it was asked at `asked_at`."""
        now = self._monotonic()
        low, high = server_s - now, server_s + _TICK_S - asked_at
        drifted_s = (now - self._as_of) * _DRIFT
        narrow_low, narrow_high = max(low, self._low - drifted_s), min(high, self._high + drifted_s)
        # They do not meet where the server's clock was set, or another server has taken its place.
        self._low, self._high = (narrow_low, narrow_high) if narrow_low <= narrow_high else (low, high)
        self._as_of = now

    @property
    def is_known(self) -> bool:
        return math.isfinite(self._low)

    def earliest(self) -> float:
        """Epoch seconds that it is at the server at least; 0 while it has not told its time."""
        return self._monotonic() + self._low if self.is_known else 0.0

    def now(self) -> float:
        """Epoch seconds by the server's clock; by this machine's while the server has not told its time."""
        return self._monotonic() + (self._low + self._high) / 2 if self.is_known else self._wall()

    @property
    def ahead_s(self) -> float:
        """Seconds that this machine's wall clock is ahead of the server's, at least; 0 while nothing is known."""
        if not self.is_known:
            return 0.0
        ahead = self._wall() - self._monotonic()
        return ahead - min(max(ahead, self._low), self._high)


class GroupReader:
    """One consumer of one group of one stream. It sets `clock` whenever it refreshes its entries.

    `lost` counts entries that waited or were in flight when somebody emptied the stream: about as many, for what
    came or went in the second before is not known. `repairs` counts calls that failed.
    """

    def __init__(
        self,
        redis: Redis,
        blocking: Redis,
        *,
        stream: str,
        group: str,
        consumer: str,
        clock: BusClock | None = None,
    ) -> None:
        self.stream, self.group, self.consumer = stream, group, consumer
        self.lost = self.repairs = 0
        self._redis, self._blocking = redis, blocking
        self._cursor = "0-0"
        self._backoffs: dict[str, Backoff] = defaultdict(lambda: Backoff(*BUS_S))
        self.clock = clock or BusClock()
        self._most_at_once = math.inf
        self._unfinished: int | None = None
        self._unread_since: float | None = None
        self.backlog: Backlog | None = None

    async def create_group(self) -> bool:
        """Create the group at the start of the stream, unless it exists; whether it was created."""
        try:
            await self._redis.xgroup_create(self.stream, self.group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
            return False
        return True

    def note_unfinished(self, count: int | None) -> None:
        self._unfinished = count

    async def read(self, count: int) -> list[Entry]:
        """Up to `count` new entries; waits about a second for the first. After large ones fewer at once."""
        return await self._healing("read", lambda: self._read_new(self._blocking, count, BLOCK_MS), [])

    async def read_waiting(self, count: int) -> list[Entry]:
        """Up to `count` new entries that are there now: those for which no consumer waits."""
        return await self._healing("read ahead", lambda: self._read_new(self._redis, count, None), [])

    async def _read_new(self, redis: Redis, count: int, block_ms: int | None) -> list[Entry]:
        count = int(min(count, self._most_at_once))
        found = cast(
            "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
            await redis.xreadgroup(self.group, self.consumer, {self.stream: ">"}, count=count, block=block_ms),
        )
        return self._noted([_entry(*row) for _, rows in found or [] for row in rows])

    async def claim(self, count: int, min_idle_ms: int) -> list[Entry]:
        """Up to `count` entries whose consumer has been silent for `min_idle_ms`, with their delivery counts.

        The cursor is kept between calls, so that a long list of pending entries is walked, not re-read.
        """
        count = int(min(count, self._most_at_once))

        async def once() -> list[Entry]:
            reply = await self._redis.xautoclaim(
                *(self.stream, self.group, self.consumer),
                min_idle_time=min_idle_ms,
                start_id=self._cursor,
                count=count,
            )
            self._cursor = decoded(reply[0])
            entries = self._noted([_entry(*row) for row in reply[1]])
            deliveries = await self._deliveries(entries)
            return [replace(entry, deliveries=deliveries.get(entry.id, 1)) for entry in entries]

        return await self._healing("claim", once, [])

    async def take_over(self, count: int, min_idle_ms: int) -> list[Entry]:
        """As `claim`, for entries that may have to wait here: `begin` counts the delivery when their turn comes.

        Else a message that kills its workers would make poison of all that waited beside it.
        """
        entries = await self.claim(count, min_idle_ms)
        if entries:
            await self._set_delivery_counts({entry.id: entry.deliveries - 1 for entry in entries})
        return entries

    async def begin(self, entry: Entry) -> None:
        """Count this delivery of an entry that was taken over: it is served now."""
        await self._set_delivery_counts({entry.id: entry.deliveries})

    async def refresh(self, ids: Collection[str]) -> None:
        """Reset the idle time of the entries, so that no other consumer claims them; set `clock` and `backlog`."""

        async def once() -> None:
            asked_at = self.clock.began()
            seconds, micros = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
            server_s = seconds + micros / 1e6
            self.clock.told(server_s, asked_at=asked_at)
            # A commit deletes its entry: what is there waits or is in flight.
            count = int(await self._redis.xlen(self.stream))
            if ids:
                await self._redis.xclaim(
                    *(self.stream, self.group, self.consumer), min_idle_time=0, message_ids=list(ids), justid=True
                )
            oldest_at = await self._oldest_at(count, server_s)
            self.note_unfinished(count)  # a group that is gone was met before this: what it held is still known
            self.backlog = Backlog(count=count, oldest_at=oldest_at, looked_at=server_s)

        await self._healing("refresh", once, None)

    async def _oldest_at(self, count: int, server_s: float) -> float | None:
        """When the oldest of so many entries was added; where none was delivered, when that was first seen."""
        pending = cast("Mapping[str, Any]", await self._redis.xpending(self.stream, self.group) if count else {})
        first = pending.get("min")
        self._unread_since = (self._unread_since or server_s) if count and first is None else None
        return self._unread_since if first is None else Entry(id=decoded(first), fields={}).added_at

    async def reset_delivery_count(self, entry_id: str) -> None:
        """Count the entry as delivered once: it waits for something that is away, and must not become poison."""
        await self._set_delivery_counts({entry_id: 1})

    async def _set_delivery_counts(self, counts: Mapping[str, int]) -> None:
        async def once() -> None:
            pipeline = self._redis.pipeline(transaction=False)
            for entry_id, count in counts.items():
                pipeline.xclaim(
                    *(self.stream, self.group, self.consumer),
                    min_idle_time=0,
                    message_ids=[entry_id],
                    retrycount=count,
                    justid=True,
                )
            await pipeline.execute()

        await self._healing("set delivery counts", once, None)

    async def leave(self) -> None:
        """Delete this consumer from the group, unless it has pending entries; also consumers idle for an hour."""
        try:
            for consumer in await self._redis.xinfo_consumers(self.stream, self.group):
                ours = decoded(consumer["name"]) == self.consumer
                if consumer["pending"] == 0 and (ours or consumer["idle"] > _IDLE_CONSUMER_MS):
                    await self._redis.xgroup_delconsumer(self.stream, self.group, consumer["name"])
        except (*BUS_AWAY, ResponseError) as error:
            log.debug("leaving group %s: %s", self.group, error)

    def _noted(self, entries: list[Entry]) -> list[Entry]:
        largest = max((sum(map(len, entry.fields.values())) for entry in entries), default=0)
        if entries:
            self._most_at_once = max(1, _BYTES_AT_ONCE // largest) if largest else math.inf
        return entries

    async def _deliveries(self, entries: list[Entry]) -> dict[str, int]:
        if not entries:
            return {}
        pipeline = self._redis.pipeline(transaction=False)
        for entry in entries:
            pipeline.xpending_range(self.stream, self.group, min=entry.id, max=entry.id, count=1)
        rows = cast("list[list[dict[str, Any]]]", await pipeline.execute())
        return {decoded(row["message_id"]): int(row["times_delivered"]) for part in rows for row in part}

    async def _healing(self, doing: str, once: Callable[[], Awaitable[T]], otherwise: T) -> T:
        try:
            result = await once()
        except (*BUS_AWAY, RedisError) as error:
            self.repairs += 1
            why = f"the bus refused ({error})"
            if isinstance(error, BUS_AWAY):
                why = f"the bus is away ({type(error).__name__})"
            elif group_is_gone(error):
                await self._make_again()
                why = None
            # It grows until the same call succeeds; another call's success says nothing about this one.
            backoff = self._backoffs[doing]
            if why is not None and backoff.is_first:
                log.warning("%s, %s: %s; trying again", self.stream, doing, why)
            await backoff.wait()
            return otherwise
        self._backoffs.pop(doing, None)
        return result

    async def _make_again(self) -> None:
        self._cursor = "0-0"
        unfinished, self._unfinished = self._unfinished, None
        try:
            if await self.create_group():  # one of all workers creates it, and counts
                log.warning("group %s of %s was gone: created again", self.group, self.stream)
                await self._count_lost(unfinished)
        except (*BUS_AWAY, ResponseError) as error:
            log.warning("group %s of %s cannot be created: %s", self.group, self.stream, error)

    async def _count_lost(self, unfinished: int | None) -> None:
        """Count what is no longer there; where only the group was deleted, everything is."""
        lost = (unfinished or 0) - int(await self._redis.xlen(self.stream))
        if lost > 0:
            self.lost += lost
            log.error(
                "%s was emptied by somebody (FLUSHALL, DEL, another database): about %d entries that waited or "
                "were in flight are lost, and their senders get no answer",
                *(self.stream, lost),
            )


def decoded(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _entry(entry_id: bytes | str, fields: Mapping[bytes, bytes]) -> Entry:
    left_out = max(0, len(fields) - _MOST_FIELDS)
    return Entry(
        id=decoded(entry_id),
        fields=dict(islice(fields.items(), _MOST_FIELDS)) if left_out else fields,
        left_out=left_out,
    )
