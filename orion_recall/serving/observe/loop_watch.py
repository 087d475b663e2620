"""Loop watch: how long the event loop has been blocked, measured from another thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

from orion_recall.tasks import cancel

_EVERY_S = 0.25


class LoopWatch:
    """Ticks on the event loop while `running()`; `silent_s` may be read from any thread."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last tick."""
        return time.monotonic() - self._last

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Tick four times a second during the block."""
        task = asyncio.create_task(self._tick(), name="loop watch")
        try:
            yield
        finally:
            await cancel(task)

    async def _tick(self) -> None:
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(_EVERY_S)
