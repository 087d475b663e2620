"""Propagation of a change: tombstones for all workers, then a wait until every copy has applied it."""

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
_POLL_S = 0.05
# Time for sending the receipt itself.
_RESERVE_S = 0.25


def waiting_s(settings: Settings, time_left_s: float) -> float:
    """How long a receipt may wait for the copies, given the seconds until its sender stops waiting."""
    return min(settings.acknowledge_ms / 1000, max(time_left_s - _RESERVE_S, 0.0))


class ChangePropagation:
    """Publishes tombstones of a change, wakes the projectors, and waits for the copies."""

    def __init__(self, pool: Pool, tombstones: TombstoneStream, wake: Callable[[], None]) -> None:
        self._pool, self._tombstones, self._wake = pool, tombstones, wake

    async def pending(self, changed: Iterable[tuple[str, str]], position: int, timeout_s: float) -> bool:
        """Whether a registered copy is still before the position after `timeout_s`.

        `changed` are the memories by tenant and id. While it is pending, workers leave them out by their
        tombstones; afterwards every worker finds their present state.
        """
        self._wake()
        await self._tombstones.publish({memory_key(tenant, name): position for tenant, name in changed})
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            while min((kept := await registered_positions(self._pool)).values(), default=position) < position:
                if loop.time() + _POLL_S > until:
                    return True
                await asyncio.sleep(_POLL_S)
        except RecordError as error:
            log.warning("the copies' positions cannot be read, so a receipt is pending at %d: %s", position, error)
            return True
        await self._tombstones.reached(kept)
        return False
