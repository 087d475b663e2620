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
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orion_recall.backoff import BUS_S, Backoff
from orion_recall.bus.connect import BUS_AWAY, group_is_gone

log = logging.getLogger("orion_recall.bus")
T = TypeVar("T")

BLOCK_MS = 1000
_IDLE_CONSUMER_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a stream; `deliveries` counts its deliveries, this one included."""

    id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1

    @property
    def added_at(self) -> float:
        """Epoch seconds by the server's clock when the entry was added, unless the sender chose its id."""
        return int(self.id.partition("-")[0]) / 1000


@dataclass(slots=True)
class Healed:
    """Counts of repairs: of groups, of connections and of anything else."""

    groups: int = 0
    connections: int = 0
    errors: dict[str, int] = field(default_factory=dict[str, int])


class GroupReader:
    """One consumer of one group of one stream."""

    def __init__(self, redis: Redis, blocking: Redis, *, stream: str, group: str, consumer: str) -> None:
        self.stream, self.group, self.consumer = stream, group, consumer
        self.healed = Healed()
        self._redis, self._blocking = redis, blocking
        self._cursor = "0-0"
        self._backoffs: dict[str, Backoff] = defaultdict(lambda: Backoff(*BUS_S))
        self._clock_offset_s, self._round_trip_s = 0.0, math.inf

    def server_time(self) -> float:
        """Epoch seconds by the server's clock, as of the last refresh."""
        return time.time() + self._clock_offset_s

    def _set_clock(self, offset_s: float, round_trip_s: float) -> None:
        """Take the offset of a quick round trip; a slow one measures it less well than the last one did.

        The limit for quick grows slowly, or a clock that drifts would no longer be followed.
        """
        self._round_trip_s *= 1.1
        if round_trip_s <= self._round_trip_s:
            self._clock_offset_s, self._round_trip_s = offset_s - round_trip_s / 2, round_trip_s

    async def create_group(self) -> None:
        """Create the group at the start of the stream, unless it exists."""
        try:
            await self._redis.xgroup_create(self.stream, self.group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def read(self, count: int) -> list[Entry]:
        """Up to `count` new entries; waits about a second for the first."""

        async def once() -> list[Entry]:
            found = cast(
                "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
                await self._blocking.xreadgroup(
                    self.group, self.consumer, {self.stream: ">"}, count=count, block=BLOCK_MS
                ),
            )
            return [_entry(*row) for _, rows in found or [] for row in rows]

        return await self._healing("read", once, [])

    async def claim(self, count: int, min_idle_ms: int) -> list[Entry]:
        """Up to `count` entries whose consumer has been silent for `min_idle_ms`, with their delivery counts.

        The cursor is kept between calls, so that a long list of pending entries is walked, not re-read.
        """

        async def once() -> list[Entry]:
            reply = await self._redis.xautoclaim(
                self.stream,
                self.group,
                self.consumer,
                min_idle_time=min_idle_ms,
                start_id=self._cursor,
                count=count,
            )
            self._cursor = _text(reply[0])
            # Before 7.0 an entry that was deleted from the stream comes back without its fields.
            rows = [row for row in reply[1] if row and row[0] is not None]
            gone = [row[0] for row in rows if row[1] is None]
            if gone:
                await self._redis.xack(self.stream, self.group, *gone)
            entries = [_entry(*row) for row in rows if row[1] is not None]
            deliveries = await self._deliveries(entries)
            return [
                Entry(id=entry.id, fields=entry.fields, deliveries=deliveries.get(entry.id, 1)) for entry in entries
            ]

        return await self._healing("claim", once, [])

    async def refresh(self, ids: Collection[str]) -> None:
        """Reset the idle time of the entries, so that no other consumer claims them. Delivery counts stay."""

        async def once() -> None:
            asked, asked_at = time.monotonic(), time.time()
            seconds, micros = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
            self._set_clock(seconds + micros / 1e6 - asked_at, time.monotonic() - asked)
            if ids:
                await self._redis.xclaim(
                    self.stream,
                    self.group,
                    self.consumer,
                    min_idle_time=0,
                    message_ids=list(ids),
                    justid=True,
                )

        await self._healing("refresh", once, None)

    async def reset_delivery_count(self, entry_id: str) -> None:
        """Count the entry as delivered once: it waits for something that is away, and must not become poison."""

        async def once() -> None:
            await self._redis.xclaim(
                self.stream,
                self.group,
                self.consumer,
                min_idle_time=0,
                message_ids=[entry_id],
                retrycount=1,
                justid=True,
            )

        await self._healing("reset delivery count", once, None)

    async def leave(self) -> None:
        """Delete this consumer from the group, unless it has pending entries; also consumers idle for an hour."""
        try:
            for consumer in await self._redis.xinfo_consumers(self.stream, self.group):
                ours = _text(consumer["name"]) == self.consumer
                if consumer["pending"] == 0 and (ours or consumer["idle"] > _IDLE_CONSUMER_MS):
                    await self._redis.xgroup_delconsumer(self.stream, self.group, consumer["name"])
        except (*BUS_AWAY, ResponseError) as error:
            log.debug("leaving group %s: %s", self.group, error)

    async def _deliveries(self, entries: list[Entry]) -> dict[str, int]:
        if not entries:
            return {}
        pipeline = self._redis.pipeline(transaction=False)
        for entry in entries:
            pipeline.xpending_range(self.stream, self.group, min=entry.id, max=entry.id, count=1)
        rows = cast("list[list[dict[str, Any]]]", await pipeline.execute())
        return {_text(row["message_id"]): int(row["times_delivered"]) for part in rows for row in part}

    async def _healing(self, doing: str, once: Callable[[], Awaitable[T]], otherwise: T) -> T:
        try:
            result = await once()
        except BUS_AWAY as error:
            self.healed.connections += 1
            await self._wait(doing, f"the bus is away ({type(error).__name__})")
            return otherwise
        except RedisError as error:
            if group_is_gone(error):
                self.healed.groups += 1
                await self._make_again(doing)
            else:
                text = str(error).partition(" ")[0]
                self.healed.errors[text] = self.healed.errors.get(text, 0) + 1
                await self._wait(doing, f"the bus refused ({error})")
            return otherwise
        self._backoffs.pop(doing, None)
        return result

    async def _make_again(self, doing: str) -> None:
        self._cursor = "0-0"
        try:
            await self.create_group()
            log.warning("group %s of %s was gone: created again", self.group, self.stream)
        except (*BUS_AWAY, ResponseError) as error:
            log.warning("group %s of %s cannot be created: %s", self.group, self.stream, error)
        await self._wait(doing, None)

    async def _wait(self, doing: str, why: str | None) -> None:
        """A wait that grows until the same call succeeds; another call's success says nothing about this one."""
        backoff = self._backoffs[doing]
        if why is not None and backoff.is_first:
            log.warning("%s, %s: %s; trying again", self.stream, doing, why)
        await backoff.wait()


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _entry(entry_id: bytes | str, fields: Mapping[bytes, bytes]) -> Entry:
    return Entry(id=_text(entry_id), fields=fields)
