"""Whether the event loop still turns, seen from another thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

from orion_recall.tasks import cancel

_EVERY_S = 0.25


class Heartbeat:
    """Beats on the loop while `beating()` runs; `silent_s` may be read from any thread."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._last

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Beats four times a second for the block."""
        task = asyncio.create_task(self._beat(), name="heartbeat")
        try:
            yield
        finally:
            await cancel(task)

    async def _beat(self) -> None:
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(_EVERY_S)
