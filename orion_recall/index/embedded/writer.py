"""Applies outbox changes to the live shard: embeds, writes, and saves some seconds later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from orion_recall.errors import DiskShort, SourceError
from orion_recall.index.embedded.folders import metadata_if_known
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.embedded.writes import read_held, read_names
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import in_parts
from orion_recall.index.points import HeldName, HeldPoint, Name
from orion_recall.index.speakers import FormerSpeaker
from orion_recall.index.write_batch import (
    VectorPrefetch,
    WriteBatch,
    build_write_batch,
    keys_of,
    name_keys_of,
    names_to_embed,
    texts_to_embed,
)
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key
from orion_recall.values import Change

log = logging.getLogger("orion_recall.sources")

# A flush holds Python's lock, the longer the more was written since the last one (some 10 ms for 1,000 points), so
# it is neither frequent nor large. What a crash loses comes again from the outbox.
_SAVE_AFTER_S = 10.0
_SAVE_AFTER_POINTS = 500


class Written(NamedTuple):
    """How many points were written or deleted, and who spoke what was changed or deleted."""

    points: int
    former: frozenset[FormerSpeaker]


class EdgeWriter:
    """Writes to the live shard in the index's writing thread."""

    def __init__(self, live: LiveShard, thread: EngineThreads, embedder: Embedder, sparse: SparseEncoder) -> None:
        self._live, self._thread, self._embedder, self._sparse = live, thread, embedder, sparse
        self._prefetch = VectorPrefetch(embedder)
        self._saving: asyncio.Task[None] | None = None
        self._unsaved_points = 0

    async def prepare(self, changes: Sequence[Change]) -> None:
        changes = (await in_parts(changes))[0]
        held, names = await self._held_before(changes)
        await self._prefetch.vectors(texts_to_embed(changes, held, with_tokens=self._writes_tokens()))
        await self._prefetch.of_names(names_to_embed(changes, names))

    async def apply(self, changes: Sequence[Change]) -> Written:
        parts = [await self._apply(part) for part in await in_parts(changes)]
        return Written(sum(one.points for one in parts), frozenset().union(*(one.former for one in parts)))

    async def _apply(self, changes: Sequence[Change]) -> Written:
        await self._check_room()  # before texts are embedded in vain
        held, names = await self._held_before(changes)
        batch = await build_write_batch(
            changes, held, self._prefetch, self._sparse, names=names, with_tokens=self._writes_tokens()
        )
        if self._live.metadata is None:  # an embedding server may not have told its model before its first answer
            mine = IndexMetadata.of(self._embedder, self._sparse)
            await self._thread.run(lambda: self._live.make(mine))
        self._live.refuse_another_model()
        await self._write(batch, changes[-1].position)
        versions = {
            memory_key(change.memory.tenant, change.memory.id): change.memory.version
            for change in changes
            if change.memory.is_live
        }
        changed = [one for key, one in held.items() if one.version != versions.get(key)]
        return Written(len(batch.points) + len(batch.gone), _speakers_of(changed))

    async def remove(self, keys: Sequence[int]) -> Written:
        held = await self._held_of(keys)
        forgotten = sorted({Name(one.tenant, name) for one in held.values() for name in one.names})
        metadata = self._live.metadata
        position = metadata.position if metadata is not None else 0
        gone = list(keys)
        await self._write(WriteBatch(points=[], gone=gone, forgotten=forgotten, replaced=gone), position)
        return Written(len(gone), _speakers_of(held.values()))

    async def save(self) -> None:
        self._unsaved_points = 0
        await self._thread.run(self._live.save)

    async def close(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        with contextlib.suppress(SourceError):
            await self.save()

    async def _check_room(self) -> None:
        try:
            await self._thread.run(self._live.check_room)
        except DiskShort:
            with contextlib.suppress(SourceError):
                await self.save()  # while there is room for it: then closing needs none
            raise

    async def _write(self, batch: WriteBatch, position: int) -> None:
        await self._thread.run(lambda: self._live.write(batch, position))
        self._unsaved_points += len(batch.points) + len(batch.gone)
        if self._unsaved_points >= _SAVE_AFTER_POINTS:
            await self._save_or_warn()
        if not self._live.is_saved and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save_later())

    async def _held_before(
        self, changes: Sequence[Change]
    ) -> tuple[Mapping[int, HeldPoint], Mapping[int, HeldName]]:
        """What the shard holds of the changes' memories and of the entities they name."""
        if self._live.metadata is None:
            return {}, {}
        # Asked for at every read: an optimised copy may replace the live shard at every await.
        keys = name_keys_of(changes)
        held = await self._held_of(keys_of(changes))
        return held, await self._thread.run(lambda: read_names(self._live.checked(), keys))

    async def _held_of(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        return await self._thread.run(lambda: read_held(self._live.checked(), keys))

    def _writes_tokens(self) -> bool:
        """Whether token vectors are written: in a new index when the embedder gives them, else as before."""
        mine = metadata_if_known(self._embedder, self._sparse)
        metadata = mine if self._live.metadata is None else self._live.metadata
        self._prefetch.with_tokens = (
            mine is not None and metadata is not None and metadata.without_tokens(mine) is None
        )
        return self._prefetch.with_tokens

    async def _save_later(self) -> None:
        while not self._live.is_saved:
            await asyncio.sleep(_SAVE_AFTER_S)
            await self._save_or_warn()

    async def _save_or_warn(self) -> None:
        try:
            await self.save()
        except SourceError as error:
            log.warning(
                "the index in %s could not be saved: %s; it is tried again within %g s, so see whether its disk "
                "is full",
                *(self._live.folder, error, _SAVE_AFTER_S),
            )


def _speakers_of(held: Iterable[HeldPoint]) -> frozenset[FormerSpeaker]:
    return frozenset(FormerSpeaker(one.tenant, one.speaker) for one in held if one.speaker)
