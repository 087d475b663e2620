"""How often memories were of use: counted after the reply, off the way of any query."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from orion_recall.errors import RecordError

_MOST_IDS = 50
_EVERY_S = 2.0
_MOST_WAITING = 100_000


class Touched(Protocol):
    """Where accesses are counted: the record."""

    async def touch(self, tenant: str, ids: Sequence[str]) -> None: ...


class AccessCounts:
    """Collects accesses and writes them every two seconds; what cannot be written is only a count and is let go."""

    def __init__(self, record: Touched) -> None:
        self._record = record
        self._waiting: dict[str, list[str]] = defaultdict(list)

    def note(self, tenant: str, ids: Sequence[str]) -> None:
        """The first fifty ids of one reply."""
        waiting = self._waiting[tenant]
        if len(waiting) < _MOST_WAITING:
            waiting.extend(ids[:_MOST_IDS])

    async def run(self) -> None:
        """Write until cancelled, and once more then, unless the record says nothing."""
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self.flush()

    async def flush(self) -> None:
        """Write what has been collected."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        for tenant, ids in waiting.items():
            try:
                await self._record.touch(tenant, ids)
            except RecordError:
                return
