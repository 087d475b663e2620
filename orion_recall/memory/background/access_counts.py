"""Access counts: how often each memory was in a reply, written in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence

from orion_recall.errors import RecordError
from orion_recall.memory.record.record import Record

_MOST_IDS = 50
_EVERY_S = 2.0
_MOST_WAITING = 100_000


class AccessCounts:
    """Collects accesses and writes them every two seconds; counts that cannot be written are dropped."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: dict[str, list[str]] = defaultdict(list)

    def note(self, tenant: str, ids: Sequence[str]) -> None:
        """Counts the first fifty ids of one reply."""
        waiting = self._waiting[tenant]
        if len(waiting) < _MOST_WAITING:
            waiting.extend(ids[:_MOST_IDS])

    async def run(self) -> None:
        """Writes until cancelled, and once more then, if the record answers."""
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self.flush()

    async def flush(self) -> None:
        """Writes what was collected."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        for tenant, ids in waiting.items():
            try:
                await self._record.touch(tenant, ids)
            except RecordError:
                return
