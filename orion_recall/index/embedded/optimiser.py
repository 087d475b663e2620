"""Optimisation of the embedded index: when it is due, and the switch to the optimised copy while serving."""

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
from orion_recall.index.embedded.shard import LiveShard, ReplacedShard
from orion_recall.index.engine_threads import EngineThreads, to_the_end

log = logging.getLogger("orion_recall.sources")

# Until then what is new is scanned by every search. Optimising costs a copy of the whole index: so it is due after
# a share of what is there, and in a large index before the scan takes longer than all else in a recall.
_AFTER, _AFTER_SHARE, _AFTER_MOST = 5000, 0.5, 100_000


class EdgeOptimiser:
    """Optimises one index; `retire` is called with the shard that the optimised copy replaced."""

    def __init__(
        self,
        folder: Path,
        live: LiveShard,
        writer: EngineThreads,
        retire: Callable[[ReplacedShard], Awaitable[None]],
    ) -> None:
        self._folder, self._live, self._writer, self._retire = folder, live, writer, retire
        self._written = 0
        self._running: asyncio.Task[None] | None = None

    def note(self, written: int) -> None:
        """Counts points written or deleted; starts optimising when they are enough."""
        self._written += written
        if self._written >= _AFTER and self._written >= min(_AFTER_SHARE * self._live.count, _AFTER_MOST):
            self._begin()

    def reset(self) -> None:
        """All that was written is optimised, or is about to be."""
        self._written = 0

    async def write_anew(self) -> None:
        """Writes the index anew, without the bytes of deleted points; searches and writes go on meanwhile."""
        await self.end()
        self.reset()
        await self._renew(anew=True)

    async def end(self) -> None:
        """Cancels what is under way, and waits for it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _begin(self) -> None:
        if self._running is None or self._running.done():
            self.reset()  # a failure is tried again after as many
            self._running = asyncio.create_task(self._renew())
            self._running.add_done_callback(_log_failure)

    async def _renew(self, *, anew: bool = False) -> None:
        place = free_place(self._folder, "optimised")
        lock = FolderLock.acquire(place, what="the copy that is optimised", hint="or wait until it is done")
        try:
            copy = await to_the_end(self._writer.run(lambda: self._live.copy_to(place)))
            await optimise_apart(copy, anew=anew)
            await asyncio.to_thread(read_through, copy)
        except BaseException:
            await to_the_end(self._discard(place, lock))
            raise
        await to_the_end(self._switch(place, lock))

    async def _switch(self, place: Path, lock: FolderLock) -> None:
        try:
            replaced = await self._writer.run(lambda: self._live.switch_to_copy(place, lock))
        except SourceError:
            await self._discard(place, lock)
            raise
        await self._retire(replaced)

    async def _discard(self, place: Path, lock: FolderLock) -> None:
        self._live.discard_copy()
        lock.release()
        # As large as the index: not on the loop.
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning(
            "the index could not be optimised, and is searched as it is; it is tried again after more writes: %s",
            error,
        )
