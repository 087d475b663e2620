"""The embedded index: Qdrant Edge in this process, with dense and keyword vectors of every memory.

One folder holds one shard and belongs to one process. The folder's `index.json` names the embedding model, its
dimension and weights, and the position in the outbox. An index made with another model is refused, unless a build
with the right one is complete: that one is swapped in (`folders`). Points are keyed by `text.normal.memory_key`, so
that a rebuilt index is the same index.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded.folders import build_place, clear_builds, is_complete, swap
from orion_recall.index.embedded.metadata import metadata_if_known
from orion_recall.index.embedded.optimiser import EdgeOptimiser
from orion_recall.index.embedded.reads import EdgeReads
from orion_recall.index.embedded.shard import ADVICE, LiveShard, ReplacedShard
from orion_recall.index.embedded.speaker_cache import FormerSpeaker
from orion_recall.index.embedded.writer import EdgeWriter
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.record_identity import refuse_without
from orion_recall.index.write_batch import keys_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory


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
        """Flushes what was written and releases the folder."""
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
        """The identity of the database that the index was filled from; None while it has none."""
        return self._live.database_identity

    def expect(self, identity: str) -> None:
        """The identity of the database that the index must be a copy of."""
        self._live.expect(identity)

    async def check(self) -> None:
        """AnotherRecordsCopy when it was filled from another database."""
        self._live.check_identity()

    async def adopt(self, newest: Memory | None) -> None:
        """Gives an index without a database identity the expected one, if it holds `newest`."""
        identity = self._live.expected_identity
        if identity is None or self._live.metadata is None:
            return
        if newest is not None:
            held = await self.fetch([memory_key(newest.tenant, newest.id)])
            refuse_without(f"the index in {self.folder}", newest, held, advice=ADVICE)
        await self._writer.run(lambda: self._live.set_identity(identity))
        await self.save()

    @property
    def count(self) -> int:
        """Points in the shard: memories and entities."""
        return self._live.checked().info().points_count

    async def apply(self, changes: Sequence[Change]) -> None:
        """Applies outbox changes in order and advances the position. Idempotent."""
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
        """Embeds what `apply` gets next; writes nothing. A text that changes until then is embedded again."""
        await self._writes.prepare(changes)

    async def remove(self, keys: Sequence[int]) -> None:
        """Deletes memories that the record does not know; the position stays."""
        await self.removed(keys)

    async def removed(self, keys: Sequence[int]) -> frozenset[FormerSpeaker]:
        """As `remove`; who spoke them."""
        with self._views.written(keys), self._speakers.written():
            removed = await self._writes.remove(keys)
        self._speakers.note((), removed.former)
        return removed.former

    async def save(self) -> None:
        """Flushes the shard, then writes its position: after a crash in between the changes come again."""
        await self._writes.save()

    def staged_rebuild(self) -> EdgeIndex | None:
        """The complete build by the same model that waits to be swapped in, not opened; None when there is none."""
        if (mine := metadata_if_known(self.embedder, self.sparse)) is None or self._live.metadata is None:
            return None
        place = build_place(self.folder, mine)
        return EdgeIndex(place, self.embedder, self.sparse, room=self.room) if is_complete(place) else None

    async def swap_in(self, built: EdgeIndex) -> None:
        """Replaces this index by an open build; searches that run end with the old one."""
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
