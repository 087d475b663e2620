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
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import DiskShort, EngineError, SourceError
from orion_recall.index.caches import FormerSpeaker, KeptViews, SpeakerCache, speaker_scope
from orion_recall.index.embedded.engine import EdgeEngine
from orion_recall.index.embedded.folders import (
    build_place,
    clear_builds,
    free_place,
    is_complete,
    metadata_if_known,
    swap,
)
from orion_recall.index.embedded.optimised_copy import optimise_apart, read_through
from orion_recall.index.embedded.shard import LiveShard, ReplacedShard
from orion_recall.index.engine_threads import EngineThreads, InThisThread, to_the_end, translated
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import OF, in_parts, points_of
from orion_recall.index.points import AS_HELD, HeldName, HeldPoint
from orion_recall.index.reads import IndexReads, held_names, held_points, removal, write
from orion_recall.index.requests import Is, scope_filter
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
from orion_recall.models.token_space import Tokens
from orion_recall.text.normal import memory_key
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Change, MemoryView, Scope

log = logging.getLogger("orion_recall.sources")

TITLES = "titles"
# A flush holds Python's lock, the longer the more was written since the last one (some 10 ms for 1,000 points), so
# it is neither frequent nor large. What a crash loses comes again from the outbox.
_SAVE_AFTER_S = 10.0
_SAVE_AFTER_POINTS = 500
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


class EdgeIndex(IndexReads):
    """One shard with the lock of its folder. Searches run in the caller's thread, also during writes."""

    kind = "index"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy: str | None = None

    def __init__(
        self, folder: Path, embedder: Embedder, sparse: SparseEncoder, *, room: DiskSpace | None = None
    ) -> None:
        self._live = LiveShard(folder, embedder, sparse, room)
        self._readers = EdgeEngine(self._live, InThisThread("the index"))
        super().__init__(self._readers, embedder, sparse)
        self.folder, self.room = folder, room
        self._speakers, self._views = SpeakerCache(), KeptViews()
        # Why late interaction cannot be asked for, of an index with these tokens: its embedder stays the same.
        self._without_tokens: tuple[str | None, str | None] = None, None
        self._writer = EngineThreads("the index", 1, name="index-write")
        self._written = EdgeEngine(self._live, self._writer)
        self._prefetch = VectorPrefetch(embedder)
        self._saving: asyncio.Task[None] | None = None
        self._unsaved_points = 0
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
        self._lock = FolderLock.acquire(self.folder, what="the index", hint=hint)
        try:
            await self._writer.run(self._live.load)
        except (SourceError, EngineError):
            await self.close()
            raise
        await self.check()

    async def close(self) -> None:
        await self._optimiser.end()
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        with contextlib.suppress(SourceError):
            await self.save()
        with contextlib.suppress(SourceError):
            await self._writer.run(self._live.close)
        try:
            await self._writer.close()
        finally:
            self._live.release()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @property
    def metadata(self) -> IndexMetadata | None:
        return self._live.metadata

    @property
    def position(self) -> int:
        return self.metadata.position if self.metadata is not None else 0

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

    def has_values(self, field: str) -> bool:
        """Whether any memory has a value in the indexed field, of whatever tenant."""
        return self._live.has_values(field)

    def may_have_passages(self) -> bool:
        return self.has_values(OF)

    async def has_passages(self, tenant: str) -> bool:
        return self.has_values(OF)

    async def has_titles(self, tenant: str) -> bool:
        """Whether any memory has a title, of whatever tenant."""
        return self.has_values(TITLES)

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        return await super().nearest_passages(vector, tenant, self._views.may_have_passages(keys))

    async def without_tokens(self) -> str | None:
        self._live.checked()
        self._live.refuse_another_model()
        metadata = self._live.metadata
        assert metadata is not None  # an open shard has some
        asked_of, why = self._without_tokens
        if asked_of != metadata.tokens:
            why = metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse))
            self._without_tokens = metadata.tokens, why
        return why

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        self._live.checked()
        points, column = points_of(keys, passages), self._live.tokens
        if column is None:
            return {}
        found = translated("the index", lambda: column.max_sim(tokens, list(points)))
        return {points[name]: score for name, score in found.items()}

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        self._live.checked()
        return await self._views.fetched(keys, super().fetch)

    async def speakers(self, scope: Scope) -> frozenset[str]:
        self._live.checked()
        return await self._speakers.names(speaker_scope(scope), self.speakers_in)

    async def speakers_in(self, scope: Scope, among: Collection[str] | None) -> frozenset[str]:
        """As `speakers`, read from the shard: all of the `speaker_scope`, or those among some names."""
        where = scope_filter(scope)
        if among is None:
            return await self._readers.speakers(where)
        found: list[str] = []
        for name in among:
            records, _ = await self._readers.scroll(where._replace(must=[*where.must, Is("speaker", name)]), 1)
            found += [name] if records else []
        return frozenset(found)

    async def prepare(self, changes: Sequence[Change]) -> None:
        changes = (await in_parts(changes))[0]
        held, names = await self._held_before(changes)
        await self._prefetch.vectors(texts_to_embed(changes, held, with_tokens=self._writes_tokens()))
        await self._prefetch.of_names(names_to_embed(changes, names))

    async def apply(self, changes: Sequence[Change]) -> None:
        await self.applied(changes)

    async def applied(self, changes: Sequence[Change]) -> frozenset[FormerSpeaker]:
        """As `apply`; who spoke what was changed or deleted by that."""
        if not changes:
            return frozenset()
        former = frozenset[FormerSpeaker]()
        with self._views.written(keys_of(changes)), self._speakers.written():
            for part in await in_parts(changes):
                former |= await self._apply(part)
        self._speakers.note(changes, former)
        return former

    async def _apply(self, changes: Sequence[Change]) -> frozenset[FormerSpeaker]:
        await self._check_room()  # before texts are embedded in vain
        held, names = await self._held_before(changes)
        batch = await build_write_batch(
            changes, held, self._prefetch, self.sparse, names=names, with_tokens=self._writes_tokens()
        )
        if self._live.metadata is None:  # an embedding server may not have told its model before its first answer
            mine = IndexMetadata.of(self.embedder, self.sparse)
            await self._writer.run(lambda: self._live.make(mine))
        self._live.refuse_another_model()
        await self._write(batch, changes[-1].position)
        self._optimiser.note(len(batch.points) + len(batch.gone))
        versions = {
            memory_key(change.memory.tenant, change.memory.id): change.memory.version
            for change in changes
            if change.memory.is_live
        }
        return _speakers_of(one for key, one in held.items() if one.version != versions.get(key))

    async def remove(self, keys: Sequence[int]) -> None:
        await self.removed(keys)

    async def removed(self, keys: Sequence[int]) -> frozenset[FormerSpeaker]:
        """As `remove`; who spoke them."""
        with self._views.written(keys), self._speakers.written():
            held = await held_points(self._written, keys, with_tokens=False)
            await self._write(removal(keys, held), self.position)
        former = _speakers_of(held.values())
        self._speakers.note((), former)
        return former

    async def save(self) -> None:
        self._unsaved_points = 0
        await self._writer.run(self._live.save)

    async def _held_before(
        self, changes: Sequence[Change]
    ) -> tuple[Mapping[int, HeldPoint], Mapping[int, HeldName]]:
        """What the shard holds of the changes' memories and of the entities they name."""
        if (metadata := self._live.metadata) is None:
            return {}, {}
        held = await held_points(self._written, keys_of(changes), with_tokens=False)
        if metadata.tokens and (column := self._live.tokens) is not None:
            held = {key: one._replace(tokens=AS_HELD) if key in column else one for key, one in held.items()}
        return held, await held_names(self._written, name_keys_of(changes))

    async def _write(self, batch: WriteBatch, position: int) -> None:
        await write(self._written, batch, has_passages=self.has_values(OF))
        self._live.advance(position)
        self._unsaved_points += len(batch.points) + len(batch.gone)
        if self._unsaved_points >= _SAVE_AFTER_POINTS:
            await self._save_or_warn()
        if not self._live.is_saved and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save_later())

    def _writes_tokens(self) -> bool:
        """Whether token vectors are written: in a new index when the embedder gives them, else as before."""
        mine = metadata_if_known(self.embedder, self.sparse)
        metadata = mine if self._live.metadata is None else self._live.metadata
        self._prefetch.with_tokens = (
            mine is not None and metadata is not None and metadata.without_tokens(mine) is None
        )
        return self._prefetch.with_tokens

    async def _check_room(self) -> None:
        try:
            await self._writer.run(self._live.check_room)
        except DiskShort:
            with contextlib.suppress(SourceError):
                await self.save()  # while there is room for it: then closing needs none
            raise

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
        await built._writer.close()

    async def _retire(self, replaced: ReplacedShard) -> None:
        """Closes and deletes a replaced shard: it is searched on the loop, so that no search is under way."""
        self._speakers.clear()
        self._views.clear()
        with contextlib.suppress(SourceError):
            await self._writer.run(replaced.close)
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


def _speakers_of(held: Iterable[HeldPoint]) -> frozenset[FormerSpeaker]:
    return frozenset(FormerSpeaker(one.tenant, one.speaker) for one in held if one.speaker)
