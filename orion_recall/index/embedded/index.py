"""The embedded index: Qdrant Edge in this process, with dense and keyword vectors of every memory.

One folder holds one shard and belongs to one process. An index made with another model is refused, unless a build
with the right one is complete: that one is swapped in (`folders`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import qdrant_edge as qe

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import DiskShort, SourceError
from orion_recall.index.caches import KeptViews, SpeakerCache
from orion_recall.index.embedded.folders import (
    build_place,
    clear_builds,
    free_place,
    is_complete,
    metadata_if_known,
    swap,
)
from orion_recall.index.embedded.optimised_copy import optimise_apart, read_through
from orion_recall.index.embedded.points import edge_filter, edge_requests
from orion_recall.index.embedded.shard import LiveShard, ReplacedShard
from orion_recall.index.engine_threads import EngineThreads, to_the_end, translated
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.points import AS_HELD, DENSE_VECTORS, HeldPoint, IndexPoint
from orion_recall.index.reads import IndexReads, held_names, held_points, removal, write
from orion_recall.index.requests import Fields, Filter, Page, Patience, Record, Scored, Search, scope_filter
from orion_recall.index.texts import OF, in_parts, points_of
from orion_recall.index.write_batch import (
    Held,
    VectorPrefetch,
    WriteBatch,
    build_write_batch,
    embedded,
    keys_of,
    name_keys_of,
)
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import Tokens
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Change, MemoryView, Scope

T = TypeVar("T")

log = logging.getLogger("orion_recall.sources")

# A flush holds Python's lock, the longer the more was written since the last one (some 10 ms for 1,000 points), so
# it is neither frequent nor large. What a crash loses comes again from the outbox.
_SAVE_AFTER_S = 10.0
_SAVE_AFTER_POINTS = 500
# Until then what is new is scanned by every search. Optimising costs a copy of the whole index: so it is due after
# a share of what is there, and in a large index before the scan takes longer than all else in a recall.
_AFTER, _AFTER_SHARE, _AFTER_MOST = 5000, 0.5, 100_000


class EdgeEngine:
    """The live shard by way of `threads`. Searches run during writes.

    The shard is asked for at every call: an optimised copy may replace the live one at every await.
    """

    def __init__(self, live: LiveShard, threads: EngineThreads) -> None:
        self._live, self.threads = live, threads

    async def search(self, requests: Sequence[Search], patience: Patience = "full") -> Sequence[Sequence[Scored]]:
        shard, rarity = self._live.checked(), self._live.rarity
        if any(one.using in DENSE_VECTORS for one in requests):
            self._live.refuse_another_model()

        def found(fields: frozenset[str]) -> Sequence[Sequence[Scored]]:
            tenants = self._live.tenants()
            asked = edge_requests(shard, requests, rarity, fields, tenants)
            points = shard.query_batch(qe.QueryBatchRequest(asked))
            if tenants is not None and self._live.tenants() != tenants:  # another tenant's came while it searched
                asked = edge_requests(shard, requests, rarity, fields)
                points = shard.query_batch(qe.QueryBatchRequest(asked))
            return points

        return await self._answered(found)

    async def retrieve(
        self, keys: Sequence[int], payload: Fields, vectors: Sequence[str] = (), patience: Patience = "full"
    ) -> Sequence[Record]:
        shard = self._live.checked()
        with_payload = payload if isinstance(payload, bool) else list(payload)
        return await self.threads.run(lambda: shard.retrieve(list(keys), with_payload, list(vectors) or False))

    async def scroll(self, page: Page, patience: Patience = "full") -> tuple[Sequence[Record], Any]:
        shard, order = self._live.checked(), None
        if page.newest_first is not None:
            order = qe.OrderBy("ts", qe.Direction.Desc if page.newest_first else qe.Direction.Asc)

        def found(fields: frozenset[str]) -> tuple[Sequence[Record], Any]:
            if order is not None and "ts" not in fields:
                return (), None
            request = qe.ScrollRequest(
                filter=edge_filter(page.where, fields),
                limit=page.limit,
                offset=page.offset,
                with_payload=list(page.payload) or False,
                with_vector=False,
                order_by=order,
            )
            return shard.scroll(request)

        return await self._answered(found)

    async def speakers(self, where: Filter) -> frozenset[str]:
        """At most 1000 of each segment."""
        shard = self._live.checked()

        def found(fields: frozenset[str]) -> frozenset[str]:
            if "speaker" not in fields:
                return frozenset()
            # Not exact: the names are the same, and to count the memories of each takes five to twenty times the
            # CPU.
            request = qe.FacetRequest("speaker", 1000, False, edge_filter(where, fields))
            return frozenset(str(hit.value) for hit in shard.facet(request).hits)

        return await self._answered(found)

    async def _answered(self, ask: Callable[[frozenset[str]], T]) -> T:
        """What is found with the fields that have an index; asked for again if one came meanwhile, with points."""

        def found() -> T:
            while True:
                fields = self._live.fields
                answer = ask(fields)
                if self._live.fields == fields:
                    return answer

        return await self.threads.run(found)

    async def delete(self, keys: Sequence[int]) -> None:
        await self.threads.run(lambda: self._live.delete(keys))

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        await self.threads.run(lambda: self._live.upsert(points))


class EdgeOptimiser:
    """Optimises one index; `retire` is called with the shard that the optimised copy replaced."""

    def __init__(
        self, live: LiveShard, writer: EngineThreads, retire: Callable[[ReplacedShard], Awaitable[None]]
    ) -> None:
        self._live, self._writer, self._retire = live, writer, retire
        self.written = 0
        """Points written or deleted that are not optimised, nor about to be."""
        self._running: asyncio.Task[None] | None = None

    def note(self, written: int) -> None:
        """Counts points written or deleted; starts optimising when they are enough."""
        self.written += written
        if self.written < _AFTER:
            return
        if self.written < min(_AFTER_SHARE * self._live.checked().info().points_count, _AFTER_MOST):
            return
        if self._running is None or self._running.done():
            self.written = 0  # a failure is tried again after as many
            self._running = asyncio.create_task(self._renew())
            self._running.add_done_callback(_log_failure)

    async def write_anew(self) -> None:
        """Writes the index anew, without the bytes of deleted points; searches and writes go on meanwhile."""
        await self.end()
        self.written = 0
        await self._renew(anew=True)

    async def end(self) -> None:
        """Cancels what is under way, and waits for it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _renew(self, *, anew: bool = False) -> None:
        place = free_place(self._live.folder, "optimised")
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
        self._live.write_log = None
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

    shared = False
    copy: str | None = None

    def __init__(
        self, folder: Path, embedder: Embedder, sparse: SparseEncoder, *, room: DiskSpace | None = None
    ) -> None:
        self._live = LiveShard(folder, embedder, sparse, room)
        self._readers = EdgeEngine(self._live, EngineThreads("the index", 0))
        super().__init__(self._readers, embedder, sparse)
        self.folder, self.room = folder, room
        self._speakers, self._views = SpeakerCache(), KeptViews()
        # Why late interaction cannot be asked for, of an index with these tokens: its embedder stays the same.
        self._without_tokens: tuple[str, str | None] | None = None
        self._writer = EngineThreads("the index", 1, name="index-write")
        self._written = EdgeEngine(self._live, self._writer)
        self._prefetch = VectorPrefetch(embedder)
        self._saving: asyncio.Task[None] | None = None
        self._unsaved_points = 0
        self._optimiser = EdgeOptimiser(self._live, self._writer, self._retire)
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
        except BaseException:
            # Cancelled, too: the thread would go on writing into a folder that is nobody's.
            await to_the_end(self.close())
            raise
        await self.check()

    async def close(self) -> None:
        await self._optimiser.end()
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        for step in (self._live.save, self._live.close):
            with contextlib.suppress(SourceError):
                await self._writer.run(step)
        try:
            await self._writer.close()
        finally:
            self._live.release()
            if self._lock is not None:
                self._lock.release()

    @property
    def position(self) -> int:
        return metadata.position if (metadata := self._live.metadata) is not None else 0

    @property
    def database_identity(self) -> str | None:
        return self._live.database_identity

    def expect(self, identity: str) -> None:
        self._live.expected_identity = identity

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

    def may_have_passages(self) -> bool:
        return self._live.has_values(OF)

    async def has_passages(self, tenant: str) -> bool:
        return self._live.has_values(OF)

    async def has_titles(self, tenant: str) -> bool:
        """Whether any memory has a title, of whatever tenant."""
        return self._live.has_values("titles")

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        return await super().nearest_passages(vector, tenant, self._views.may_have_passages(keys))

    async def without_tokens(self) -> str | None:
        self._live.checked()
        self._live.refuse_another_model()
        metadata = self._live.metadata
        assert metadata is not None  # an open shard has some
        if (known := self._without_tokens) is None or known[0] != metadata.tokens:
            why = metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse))
            known = self._without_tokens = metadata.tokens, why
        return known[1]

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
        return await self._speakers.names(scope, lambda known: self._readers.speakers(scope_filter(known)))

    async def prepare(self, changes: Sequence[Change]) -> None:
        changes = (await in_parts(changes))[0]
        await embedded(changes, await self._held_before(changes), self._prefetch)

    async def apply(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        former = set[tuple[str, str]]()
        with self._views.written(keys_of(changes)), self._speakers.written():
            for part in await in_parts(changes):
                former |= await self._apply(part)
        self._speakers.note(changes, former)

    async def _apply(self, changes: Sequence[Change]) -> set[tuple[str, str]]:
        """Tenant and speaker of what was changed or deleted."""
        await self._check_room()  # before texts are embedded in vain
        held = await self._held_before(changes)
        batch = await build_write_batch(changes, held, self._prefetch, self.sparse)
        if self._live.metadata is None:  # an embedding server may not have told its model before its first answer
            mine = IndexMetadata.of(self.embedder, self.sparse)
            await self._writer.run(lambda: self._live.make(mine))
        self._live.refuse_another_model()
        await self._write(batch, changes[-1].position)
        self._optimiser.note(len(batch.points) + len(batch.gone))
        versions = {point.key: point.payload.get("version") for point in batch.points}
        return _speakers_of(one for key, one in held.points.items() if one.version != versions.get(key))

    async def remove(self, keys: Sequence[int]) -> None:
        with self._views.written(keys), self._speakers.written():
            held = await held_points(self._written, keys, with_tokens=False)
            await self._write(removal(keys, held), self.position)
        self._speakers.note((), _speakers_of(held.values()))

    async def save(self) -> None:
        self._unsaved_points = 0
        await self._writer.run(self._live.save)

    async def _held_before(self, changes: Sequence[Change]) -> Held:
        """What the shard holds of the changes' memories and of the entities they name."""
        mine, metadata = metadata_if_known(self.embedder, self.sparse), self._live.metadata
        # In a new index when the embedder gives them, else as before.
        self._prefetch.with_tokens = mine is not None and (metadata or mine).without_tokens(mine) is None
        if metadata is None:
            return Held({})
        held = await held_points(self._written, keys_of(changes), with_tokens=False)
        if metadata.tokens and (column := self._live.tokens) is not None:
            held = {key: one._replace(tokens=AS_HELD) if key in column else one for key, one in held.items()}
        return Held(held, await held_names(self._written, name_keys_of(changes)))

    async def _write(self, batch: WriteBatch, position: int) -> None:
        await write(self._written, batch, has_passages=self._live.has_values(OF))
        self._live.advance(position)
        self._unsaved_points += len(batch.points) + len(batch.gone)
        if self._unsaved_points >= _SAVE_AFTER_POINTS:
            await self._save_or_warn()
        if not self._live.is_saved and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save_later())

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
        await self._retire(self._live.swap_in(built._live, lock))
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
        """Builds the search structures now, in this process, which blocks all of Python meanwhile."""
        self._optimiser.written = 0
        await self._writer.run(lambda: cast("None", self._live.checked().optimize()))


def _speakers_of(held: Iterable[HeldPoint]) -> set[tuple[str, str]]:
    return {(one.tenant, one.speaker) for one in held if one.speaker}
