"""What a change of memories promises: no worker shows what was there before, and the receipt says since when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from orion_recall.errors import RecordError
from orion_recall.memory.replicas.copies import registered_positions
from orion_recall.memory.replicas.tombstones import TombstoneStream
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key

log = logging.getLogger("orion_recall.memory")
_LOOK_EVERY_S = 0.05
# What the receipt itself needs, once all is done.
_RESERVE_S = 0.25


def waiting_s(settings: Settings, time_left_s: float) -> float:
    """How long a receipt may wait for the copies, when its sender waits so many seconds more."""
    return min(settings.acknowledge_ms / 1000, max(time_left_s - _RESERVE_S, 0.0))


class Acknowledger:
    """Tells workers and projectors of a change, and waits for the copies."""

    def __init__(self, pool: Pool, tombstones: TombstoneStream, wake: Callable[[], None]) -> None:
        self._pool, self._tombstones, self._wake = pool, tombstones, wake

    async def pending(self, changed: Iterable[tuple[str, str]], position: int, timeout_s: float) -> bool:
        """False once every registered copy is at the position; True when one is not after `timeout_s`.

        `changed` are the memories by tenant and id. While it is pending workers leave them out, by their
        tombstones; once it is not, every worker finds what they are now.
        """
        self._wake()
        await self._tombstones.publish({memory_key(tenant, name): position for tenant, name in changed})
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            while min((kept := await registered_positions(self._pool)).values(), default=position) < position:
                if loop.time() + _LOOK_EVERY_S > until:
                    return True
                await asyncio.sleep(_LOOK_EVERY_S)
        except RecordError as error:
            log.warning("whether the copies have position %d cannot be seen: %s", position, error)
            return True
        await self._tombstones.reached(kept)
        return False
