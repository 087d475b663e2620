"""Tombstones: memories that were changed or deleted, and are hidden until the copies have applied that.

A tombstone is a memory's key and the outbox position of its change, in force for a worker while the copies that it
searches are before that position. Every worker reads the stream of tombstones from its start, without a group. When
all copies have applied a change, their positions follow on it: an acknowledged change must be found from then on.
Before it serves, a worker reads what was changed after its copies' positions, from stream and record.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, LiteralString, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.renewal import AHEAD_MS
from orion_recall.errors import RecordError
from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import CopyPosition, Record
from orion_recall.postgres.pool import Pool, close_pool, fetched, open_pool
from orion_recall.settings import Settings
from orion_recall.tasks import BUS_S, Backoff, cancel
from orion_recall.text.normal import memory_key, number_of

log = logging.getLogger("orion_recall.memory")

# A tombstone is of use for a second or so; what a worker that was away does not find here the record tells it. With
# so many positions a message the stream has 10 MB at most.
_MOST_KEPT, _MOST_POSITIONS = 10_000, 25
_AT_ONCE, _BLOCK_MS = 500, 1000
_CHANGED, _REACHED = "positions", "reached"
# Longer than any recall takes: one that began before the copies had moved on still needs what was in force then.
_SWEEP_EVERY_S = 120.0


class Tombstones:
    """The tombstones that a worker knows, and the positions of the copies that it searches."""

    def __init__(self, copies: Iterable[Projection] = ()) -> None:
        self._positions: dict[int, int] = {}
        self._highest = 0
        self._swept_at, self._swept_to = time.monotonic(), 0.0
        self.follow(copies)

    def follow(self, copies: Iterable[Projection]) -> None:
        """Takes the copies that this worker searches from now on."""
        self._copies = [(one, copy_number(one.kind, one.copy or "") if one.shared else None) for one in copies]
        # Of a shared copy, which one worker writes and the others see move once a second: the highest position seen
        # by any worker since this process saw it go back, and what this process saw last.
        self._reached = {number: 0 for _, number in self._copies if number is not None}
        self._seen = dict(self._reached)

    def applied_position(self) -> float:
        """The position up to which all copies are applied; infinity for a worker without copies."""
        return min(self._positions_now(), default=math.inf)

    def positions(self) -> dict[str, int]:
        """The position of each copy by its kind."""
        return dict(zip((one.kind for one, _ in self._copies), self._positions_now(), strict=True))

    def reached(self, positions: Mapping[int, int], /) -> None:
        """Takes positions of shared copies that others read, by copy number."""
        self._positions_now()
        for number, reached in self._reached.items():
            self._reached[number] = max(reached, positions.get(number, 0))

    @property
    def has_shared_copies(self) -> bool:
        return bool(self._reached)

    @property
    def own(self) -> list[Projection]:
        """The copies that no other worker searches."""
        return [one for one, number in self._copies if number is None]

    def _positions_now(self) -> list[int]:
        found: list[int] = []
        for one, number in self._copies:
            at = one.position
            if number is not None:
                # A copy goes back only when it has lost data.
                self._reached[number] = at if at < self._seen[number] else max(self._reached[number], at)
                self._seen[number] = at
                at = self._reached[number]
            found.append(at)
        return found

    def add(self, positions: Mapping[int, int]) -> None:
        for key, position in positions.items():
            if position > self._positions.get(key, 0):
                self._positions[key] = position
                self._highest = max(self._highest, position)

    def hides(self, key: int, applied: float) -> bool:
        """Whether a recall that began when the copies had applied that position must leave the memory out."""
        return self._positions.get(key, 0) > applied

    def any_above(self, applied: float) -> bool:
        return self._highest > applied

    def sweep(self) -> None:
        """Drops those that were out of force at the last sweep already; cheap to call often."""
        now = time.monotonic()
        if now - self._swept_at >= _SWEEP_EVERY_S:
            self._positions = {key: at for key, at in self._positions.items() if at > self._swept_to}
            self._swept_at, self._swept_to = now, self.applied_position()


class TombstoneStream:
    """The stream of tombstones: `publish` and `reached` after a change, `run` in every worker."""

    def __init__(self, redis: Redis, blocking: Redis, stream: str, known: Tombstones) -> None:
        self._redis, self._blocking, self._stream, self._known = redis, blocking, stream, known
        self._last = "0"
        self._is_caught_up = False

    async def publish(self, positions: Mapping[int, int]) -> None:
        """Publishes tombstones to every worker, this one first; waits while the bus is away.

        Without any it is news all the same: every worker's copies are brought up to date at once.
        """
        self._known.add(positions)
        items = iter(positions.items())
        messages: list[Mapping[str, Mapping[int, int]]] = [{_CHANGED: dict(islice(items, _MOST_POSITIONS))}]
        while some := dict(islice(items, _MOST_POSITIONS)):
            messages.append({_CHANGED: some})
        backoff = Backoff(*BUS_S)
        while True:
            try:
                return await self._add(*messages)
            except BUS_AWAY as error:
                if backoff.is_first:
                    log.warning("a tombstone waits: the bus is away (%s)", type(error).__name__)
                await backoff.wait()
            except RedisError as error:
                # The receipt still says when every copy has it; other workers only learn of it from the record.
                return log.error("no tombstone on %s: the bus refused (%s)", self._stream, error)  # noqa: TRY400

    async def reached(self, copies: Mapping[int, int]) -> None:
        """Publishes positions of copies by their numbers to every worker, this one first."""
        self._known.reached(copies)
        # Else they look at the record themselves, half a second later.
        with contextlib.suppress(*BUS_AWAY, RedisError):
            await self._add({_CHANGED: {}, _REACHED: copies})

    async def copies(self, pool: Pool) -> list[CopyPosition]:
        """Every live copy; a kind that this worker searches and nobody has registered yet is at 0. RecordError."""
        found = await registered_copies(pool)
        new = self._known.positions().keys() - {one.kind for one in found}
        return found + [CopyPosition(copy="", kind=kind, position=0, updated_at=0.0) for kind in sorted(new)]

    async def catch_up(self) -> None:
        """Read what is there now. RedisError when the bus does not answer."""
        while await self._read(None):
            pass
        self._is_caught_up = True

    async def run(self, told: Callable[[], None]) -> None:
        """Read until cancelled; `told` is called after each news."""
        backoff = Backoff(*BUS_S)
        while True:
            try:
                if not self._is_caught_up:
                    self._last = "0"  # another server, or one that has lost some, may count anew
                    await self.catch_up()
                    told()
                if await self._read(_BLOCK_MS):
                    told()
                self._known.sweep()
                backoff.reset()
            except (*BUS_AWAY, RedisError) as error:
                log.debug("reading tombstones: %s; trying again", error)
                self._is_caught_up = False
                await backoff.wait()

    async def _add(self, *messages: Mapping[str, Mapping[int, int]]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for fields in messages:
            said: dict[Any, Any] = {name: json.dumps(numbers) for name, numbers in fields.items()}
            pipeline.xadd(self._stream, said, maxlen=_MOST_KEPT, approximate=True)
        await pipeline.execute()

    async def _read(self, block_ms: int | None) -> bool:
        client = self._redis if block_ms is None else self._blocking
        found = cast(
            "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
            await client.xread({self._stream: self._last}, count=_AT_ONCE, block=block_ms),
        )
        rows = [row for _, part in found or [] for row in part]
        for entry_id, fields in rows:
            self._known.add(_numbers(fields, _CHANGED))
            # Of what was said some time ago nobody knows whether it still holds: a copy may have been lost since.
            if block_ms is not None and _REACHED.encode() in fields:
                self._known.reached(_numbers(fields, _REACHED))
            if int(entry_id.partition(b"-")[0]) > time.time() * 1000 + AHEAD_MS:  # nothing could come after it
                raise RedisError(f"the id {entry_id.decode()} is far ahead of the clock: the stream is made anew")
            self._last = entry_id.decode()
        return bool(rows)


def _numbers(fields: Mapping[bytes, bytes], name: str) -> dict[int, int]:
    try:
        found = json.loads(fields[name.encode()])
        return {int(key): int(position) for key, position in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("a tombstone could not be read: %r", error)
        return {}


# Memories in the outbox after a position that were changed since they were stored. A copy at 0 holds the first page
# at most: its worker ended before it could report.
_CHANGED_SINCE: LiteralString = """
SELECT o.tenant, o.memory_id, max(o.position) AS position
FROM outbox o JOIN memories m ON m.tenant = o.tenant AND m.id = o.memory_id
WHERE o.position > $1 AND (m.version > 1 OR NOT m.live)
    AND ($1 > 0 OR o.position <= (SELECT max(f.position) FROM (
        SELECT position FROM outbox ORDER BY position LIMIT 200) AS f))
GROUP BY o.tenant, o.memory_id
"""


async def registered_copies(pool: Pool) -> list[CopyPosition]:
    """Every registered copy that has heartbeats. RecordError.

    One without them belongs to a worker that is gone; it reads what was changed before it serves again.
    """
    return [one for one in await Record(pool).copies() if not one.is_gone]


def by_number(copies: Iterable[CopyPosition]) -> dict[int, int]:
    """Their positions by `copy_number`."""
    return {copy_number(one.kind, one.copy): one.position for one in copies}


copy_number = number_of
"""The number of a copy (kind, name) in messages between workers: its name may hold an address or a folder."""

# A Postgres that hangs must not keep a worker from answering for longer.
_BEFORE_SERVING_S = 3.0
_POLL_S = 0.5


class Freshness:
    """Keeps the tombstones of one worker: `before_serving()`, then `run()` until cancelled."""

    def __init__(
        self,
        redis: Redis,
        blocking: Redis,
        settings: Settings,
        tombstones: Tombstones,
        *,
        own_copy: str,
        told: Callable[[], None],
    ) -> None:
        self._settings, self._tombstones, self._told = settings, tombstones, told
        self._own_copy = own_copy
        self._pool: Pool | None = None
        self._learnt_to = math.inf
        self.stream = TombstoneStream(redis, blocking, settings.tombstone_stream, tombstones)

    async def before_serving(self) -> None:
        """Reads what was changed after the copies' positions: from the bus, and from a record that answers.

        There it registers this worker's own copies: from its first query on receipts must wait for them.
        """
        try:
            await self.stream.catch_up()
        except (*BUS_AWAY, RedisError) as error:
            log.warning("tombstones cannot be read yet, and are read when the bus is back: %s", error)
        if self._settings.dsn is None or self._tombstones.applied_position() == math.inf:
            return
        pool = await open_pool(self._settings.dsn, name="freshness", min_size=0, max_size=1)
        try:
            async with asyncio.timeout(_BEFORE_SERVING_S):
                for one in self._tombstones.own:
                    await Record(pool).report_position(self._own_copy, one.kind, one.position)
                await self._learn(pool)
        except (RecordError, TimeoutError) as error:
            log.warning("what was changed cannot be read from the record yet: %s", error or "it says nothing")
        finally:
            await close_pool(pool)

    def follow(self, pool: Pool) -> None:
        """From now on the record may be read; `run` reads what `before_serving` could not."""
        self._pool = pool

    async def run(self) -> None:
        """Reads tombstones, and the positions of copies that others write."""
        reading = asyncio.create_task(self.stream.run(self._told))
        try:
            while True:
                await asyncio.sleep(_POLL_S)
                if self._pool is not None:
                    try:
                        await self._poll(self._pool)
                    except RecordError as error:
                        log.debug("the positions of the copies cannot be read: %s", error)
        finally:
            await cancel(reading)

    async def _poll(self, pool: Pool) -> None:
        known = self._tombstones
        if known.has_shared_copies and known.any_above(known.applied_position()):
            known.reached(by_number(await registered_copies(pool)))
        # A copy whose position went back has lost data, or was restored to an earlier state.
        applied = known.applied_position()
        if applied < self._learnt_to:
            await self._learn(pool)
        self._learnt_to = applied

    async def _learn(self, pool: Pool) -> None:
        """Adds the memories updated, superseded or deleted after the copies' position. RecordError."""
        applied = self._tombstones.applied_position()
        if applied != math.inf:
            rows = await fetched(pool, "reading what was changed", _CHANGED_SINCE, int(applied))
            self._tombstones.add({memory_key(row["tenant"], row["memory_id"]): row["position"] for row in rows})
        self._learnt_to = applied
