"""When the embedded index is optimised, and how the copy takes its place: it is read and written meanwhile."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import SourceError
from orion_recall.index.embedded.folders import free_place
from orion_recall.index.embedded.optimised_copy import optimise_apart, read_through
from orion_recall.index.embedded.shard import Before, KeptShard
from orion_recall.index.engine_threads import EngineThreads, to_the_end

log = logging.getLogger("orion_recall.sources")

# Search is exact, and right, before it is optimised: only slower. Every time it costs a copy of the whole.
_AFTER, _AFTER_SHARE = 5000, 0.5


class EdgeOptimiser:
    """Of one index: `leave` is called with the shard before, when another has taken its place."""

    def __init__(
        self, folder: Path, kept: KeptShard, writer: EngineThreads, leave: Callable[[Before], Awaitable[None]]
    ) -> None:
        self._folder, self._kept, self._writer, self._leave = folder, kept, writer, leave
        self._written = 0
        self._running: asyncio.Task[None] | None = None

    def note(self, written: int) -> None:
        """So many points were written or taken out; when they are enough, work begins."""
        self._written += written
        if self._written >= _AFTER and self._written >= _AFTER_SHARE * self._kept.count:
            self._begin()

    def forget(self) -> None:
        """All that was written is optimised, or about to be."""
        self._written = 0

    async def end(self) -> None:
        """What is under way is given up, and waited for."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _begin(self) -> None:
        if self._running is None or self._running.done():
            self.forget()  # what fails is tried again after as many
            self._running = asyncio.create_task(self._renew())
            self._running.add_done_callback(_log_failure)

    async def _renew(self) -> None:
        place = free_place(self._folder, "optimised")
        lock = FolderLock.acquire(place, what="the copy that is optimised", hint="or wait until it is done")
        try:
            copy = await to_the_end(self._writer.run(lambda: self._kept.copy_to(place)))
            await optimise_apart(copy)
            await asyncio.to_thread(read_through, copy)
        except BaseException:
            await to_the_end(self._give_up(place, lock))
            raise
        await to_the_end(self._go_over(place, lock))

    async def _go_over(self, place: Path, lock: FolderLock) -> None:
        try:
            before = await self._writer.run(lambda: self._kept.go_over_to(place, lock))
        except SourceError:
            await self._give_up(place, lock)
            raise
        await self._leave(before)

    async def _give_up(self, place: Path, lock: FolderLock) -> None:
        self._kept.give_up_copy()
        lock.release()
        # As large as the index: not on the loop.
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the index could not be optimised, and is searched as it is: %s", error)
