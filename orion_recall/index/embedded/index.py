"""The embedded index: Qdrant Edge in this process, with dense and keyword vectors of every memory.

One folder holds one shard and belongs to one process. The folder's `index.json` names the embedding model, its
dimension and weights, and the position in the outbox. An index made with another model is refused, unless a build
with the right one is complete: that one is swapped in (`folders`). Points are keyed by `text.normal.memory_key`, so
that a rebuilt index is the same index.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded.folders import (
    build_place,
    clear_builds,
    free_place,
    is_complete,
    metadata_if_known,
    swap,
)
from orion_recall.index.embedded.optimised_copy import optimise_apart, read_through
from orion_recall.index.embedded.reads import EdgeReads
from orion_recall.index.embedded.shard import LiveShard, ReplacedShard
from orion_recall.index.embedded.writer import EdgeWriter
from orion_recall.index.engine_threads import EngineThreads, to_the_end
from orion_recall.index.speakers import FormerSpeaker
from orion_recall.index.write_batch import keys_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Change

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


class EdgeIndex(EdgeReads):
    """One shard with the lock of its folder and its threads. Searches run during writes."""

    kind = "index"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy: str | None = None

    def __init__(
        self, folder: Path, embedder: Embedder, sparse: SparseEncoder, *, room: DiskSpace | None = None
    ) -> None:
        super().__init__(LiveShard(folder, embedder, sparse, room), embedder, sparse)
        self.folder, self.room = folder, room
        self._writer = EngineThreads("the index", 1, name="index-write")
        self._writes = EdgeWriter(self._live, self._writer, embedder, sparse)
        self._optimiser = EdgeOptimiser(folder, self._live, self._writer, self._retire)
        self._lock: FolderLock | None = None

    async def open(self) -> None:
        """Locks the folder, then loads the shard or creates it.

        While the embedder does not know its model, a shard is loaded and checked later, and a missing one is
        created with the first memories. EngineError when another process has the folder, SourceError when the shard
        cannot be used; after AnotherRecordsCopy it is open and refuses reads.
        """
        # The lock comes first: a second load, even a failed one, breaks the owner's next flush.
        hint = "give each worker its own ORION_DATA_DIR"
        self._lock = FolderLock.acquire(self.folder, what="the index", hint=hint, owner=self._owner())
        try:
            await self._writer.run(self._live.load)
        except (SourceError, EngineError):
            await self.close()
            raise
        await self.check()

    def _owner(self) -> int:
        """The pid of the process that a person would stop to free the folder."""
        return os.getpid()

    async def close(self) -> None:
        await self._optimiser.end()
        await self._writes.close()
        with contextlib.suppress(SourceError):
            await self._writer.run(self._live.close)
        try:
            await asyncio.gather(self._readers.close(), self._writer.close())
        finally:
            self._live.release()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @property
    def database_identity(self) -> str | None:
        return self._live.database_identity

    def expect(self, identity: str) -> None:
        self._live.expect(identity)

    async def check(self) -> None:
        self._live.check_identity()

    async def adopt(self) -> None:
        if (identity := self._live.expected_identity) is not None and self._live.metadata is not None:
            await self._writer.run(lambda: self._live.set_identity(identity))
            await self.save()

    @property
    def count(self) -> int:
        """Points in the shard: memories and entities."""
        return self._live.checked().info().points_count

    async def apply(self, changes: Sequence[Change]) -> None:
        await self.applied(changes)

    async def applied(self, changes: Sequence[Change]) -> frozenset[FormerSpeaker]:
        """As `apply`; who spoke what was changed or deleted by that."""
        if not changes:
            return frozenset()
        with self._views.written(keys_of(changes)), self._speakers.written():
            written = await self._writes.apply(changes)
        self._speakers.note(changes, written.former)
        self._optimiser.note(written.points)
        return written.former

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self._writes.prepare(changes)

    async def remove(self, keys: Sequence[int]) -> None:
        await self.removed(keys)

    async def removed(self, keys: Sequence[int]) -> frozenset[FormerSpeaker]:
        """As `remove`; who spoke them."""
        with self._views.written(keys), self._speakers.written():
            removed = await self._writes.remove(keys)
        self._speakers.note((), removed.former)
        return removed.former

    async def save(self) -> None:
        await self._writes.save()

    def staged_rebuild(self) -> EdgeIndex | None:
        if (mine := metadata_if_known(self.embedder, self.sparse)) is None or self._live.metadata is None:
            return None
        place = build_place(self.folder, mine)
        return EdgeIndex(place, self.embedder, self.sparse, room=self.room) if is_complete(place) else None

    async def swap_in(self, built: EdgeIndex) -> None:
        await self._optimiser.end()
        await built.save()
        self._live.checked()
        lock, built._lock = built._lock, None
        replaced = self._live.swap_in(built._live, lock)
        await self._retire(replaced)
        await asyncio.gather(built._readers.close(), built._writer.close())

    async def _retire(self, replaced: ReplacedShard) -> None:
        """Lets the searches of a replaced shard end, then closes and deletes it."""
        readers, self._readers = self._readers, self._new_readers()
        self._speakers.clear()
        self._views.clear()
        await asyncio.sleep(0)  # calls made in this turn of the loop are on their way now
        await readers.close()
        with contextlib.suppress(SourceError):
            await self._writer.run(replaced.shard.close)
        await self._writer.run(lambda: swap(self.folder, self._live.place))
        if replaced.lock is not None:
            replaced.lock.release()

    async def compact(self) -> tuple[int, list[str]]:
        """Writes its files anew, without what was deleted; of unused builds how many went, and which did not."""
        if self._live.metadata is not None:
            await self._optimiser.write_anew()
        return await self._writer.run(lambda: clear_builds(self.folder))

    async def optimise(self) -> None:
        """Builds the search structures now, in this process, which blocks all of Python meanwhile.

        Searches are exact without them, only slower. An index in use is optimised in another process.
        """
        self._optimiser.reset()
        await self._writer.run(lambda: cast("None", self._live.checked().optimize()))
