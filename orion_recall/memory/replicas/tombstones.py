"""Tombstones: memories that were changed or deleted, and are hidden until the copies have applied that.

A tombstone is a memory's key and the outbox position of its change. It is in force for a worker while the copies
that this worker searches are before that position: so long every recall leaves the memory out. Tombstones are on a
stream that every worker reads from its start, without a group. They hold no id and no text. When all copies have
applied a change, their positions follow on the stream: a copy that others write is not checked in every recall, and
an acknowledged change must be found from then on.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.tasks import BUS_S, Backoff

log = logging.getLogger("orion_recall.memory")

# A tombstone is of use for a second or so; what a worker that was away does not find here the record tells it.
_MOST_KEPT = 10_000
# Of one message; so the stream has 10 MB at most.
_MOST_POSITIONS = 25
_AT_ONCE = 500
_BLOCK_MS = 1000
_CHANGED, _REACHED = "positions", "reached"
# Longer than any recall takes: one that began before the copies had moved on still needs what was in force then.
_SWEEP_EVERY_S = 120.0


class Tombstones:
    """The tombstones that this worker knows.

    `applied_position` gives the position that all of its copies have applied, infinity without copies; `positions`
    that of each, by kind, as `applied_position` last found it. `reached` is called with positions of copies that
    others may write, by copy number.
    """

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}
        self._highest = 0
        self._swept_at, self._swept_to = time.monotonic(), 0.0
        self.applied_position: Callable[[], float] = lambda: math.inf
        self.positions: Callable[[], Mapping[str, int]] = dict[str, int]
        self.reached: Callable[[Mapping[int, int]], None] = lambda _: None

    def add(self, positions: Mapping[int, int]) -> None:
        """Adds tombstones by memory key; of two for one memory the later counts."""
        for key, position in positions.items():
            if position > self._positions.get(key, 0):
                self._positions[key] = position
                self._highest = max(self._highest, position)

    def hides(self, key: int, applied: float) -> bool:
        """Whether a recall that began when the copies had applied that position must leave the memory out."""
        return self._positions.get(key, 0) > applied

    def any_above(self, applied: float) -> bool:
        """Whether there are changes after that position."""
        return self._highest > applied

    @property
    def in_force(self) -> bool:
        """Whether this worker's copies lack a change."""
        return self.any_above(self.applied_position())

    def sweep(self) -> None:
        """Drops those that were out of force at the last sweep already; cheap to call often."""
        now = time.monotonic()
        if now - self._swept_at < _SWEEP_EVERY_S:
            return
        old = [key for key, position in self._positions.items() if position <= self._swept_to]
        for key in old:
            del self._positions[key]
        self._swept_at, self._swept_to = now, self.applied_position()


class TombstoneStream:
    """The stream of tombstones: `publish` and `reached` after a change, `run` in every worker."""

    def __init__(self, redis: Redis, blocking: Redis, stream: str, known: Tombstones) -> None:
        self._redis, self._blocking, self._stream, self._known = redis, blocking, stream, known
        self._last = "0"
        self._is_caught_up = False

    async def publish(self, positions: Mapping[int, int]) -> None:
        """Publishes tombstones to every worker, this one first; waits while the bus is away."""
        self._known.add(positions)
        items = list(positions.items())
        starts = range(0, max(1, len(items)), _MOST_POSITIONS)
        parts = [dict(items[start : start + _MOST_POSITIONS]) for start in starts]
        backoff = Backoff(*BUS_S)
        while True:
            try:
                await self._add(*({_CHANGED: part} for part in parts))
            except BUS_AWAY as error:
                if backoff.is_first:
                    log.warning("a tombstone waits: the bus is away (%s)", type(error).__name__)
                await backoff.wait()
            except RedisError as error:
                # The receipt still says when every copy has it; other workers only learn of it from the record.
                log.error("no tombstone on %s: the bus refused (%s)", self._stream, error)  # noqa: TRY400
                return
            else:
                return

    async def reached(self, copies: Mapping[int, int]) -> None:
        """Publishes positions of copies by their numbers to every worker, this one first."""
        self._known.reached(copies)
        try:
            await self._add({_CHANGED: {}, _REACHED: copies})
        except (*BUS_AWAY, RedisError) as error:
            # They look at the record themselves, half a second later.
            log.debug("positions of copies are not published on %s: %s", self._stream, error)

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
            self._last = entry_id.decode()
        return bool(rows)


def _numbers(fields: Mapping[bytes, bytes], name: str) -> dict[int, int]:
    try:
        found = json.loads(fields[name.encode()])
        return {int(key): int(position) for key, position in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("a tombstone could not be read: %r", error)
        return {}
