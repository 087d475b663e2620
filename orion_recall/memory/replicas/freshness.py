"""Freshness: loads and follows tombstones, which hide changed memories until a worker's copies have the change.

Before it serves, a worker reads what was changed after the positions of its copies: from the record, and from the
stream of tombstones, which is there while Postgres is away. Then it follows that stream.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.errors import RecordError
from orion_recall.interfaces import Projection
from orion_recall.memory.replicas.copies import OwnCopies, changed_after, registered_positions
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.postgres.pool import Pool, close_pool, open_pool
from orion_recall.settings import Settings
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.memory")

# A Postgres that hangs must not keep a worker from answering for longer.
_BEFORE_SERVING_S = 3.0
_POLL_S = 0.5


class Freshness:
    """Keeps the tombstones of one worker: `before_serving()`, then `run()` until cancelled.

    `told` is called when other workers have changed something: the copies are to catch up at once.
    """

    def __init__(
        self,
        redis: Redis,
        blocking: Redis,
        settings: Settings,
        tombstones: Tombstones,
        projections: Sequence[Projection],
        *,
        told: Callable[[], None],
    ) -> None:
        self._settings, self._tombstones, self._told = settings, tombstones, told
        self._copies = OwnCopies(projections)
        self._pool: Pool | None = None
        self._learnt_to = math.inf
        self.stream = TombstoneStream(redis, blocking, settings.tombstone_stream, tombstones)
        tombstones.applied_position, tombstones.reached = self._copies.applied_position, self._copies.reached
        tombstones.positions = self._copies.positions

    async def before_serving(self) -> None:
        """Reads what was changed after the copies' positions: from the bus, and from a record that answers."""
        try:
            await self.stream.catch_up()
        except (*BUS_AWAY, RedisError) as error:
            log.warning("tombstones cannot be read yet, and are read when the bus is back: %s", error)
        if self._settings.dsn is None or self._copies.applied_position() == math.inf:
            return
        pool = await open_pool(self._settings.dsn, name="freshness", min_size=0, max_size=1)
        try:
            async with asyncio.timeout(_BEFORE_SERVING_S):
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
        if self._copies.are_shared and self._tombstones.in_force:
            self._copies.reached(await registered_positions(pool))
        # A copy whose position went back has lost data, or was restored to an earlier state.
        applied = self._copies.applied_position()
        if applied < self._learnt_to:
            await self._learn(pool)
        self._learnt_to = applied

    async def _learn(self, pool: Pool) -> None:
        applied = self._copies.applied_position()
        if applied != math.inf:
            self._tombstones.add(await changed_after(pool, int(applied)))
        self._learnt_to = applied
