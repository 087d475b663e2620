"""The embedded index: Qdrant Edge in this process, with dense and keyword vectors of every memory.

One folder holds one shard and belongs to one process. The folder's `index.json` names the embedding model, its
dimension and weights, and the position in the outbox. An index made with another model is refused, unless a build
with the right one is complete: that one is swapped in (`folders`). Points are keyed by `text.normal.memory_key`, so
that a rebuilt index is the same index.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import qdrant_edge as qe

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded.folders import build_place, clear_builds, is_complete, swap
from orion_recall.index.embedded.metadata import metadata_if_known
from orion_recall.index.embedded.optimiser import EdgeOptimiser
from orion_recall.index.embedded.points import (
    dense_request,
    entity_request,
    in_time_order_request,
    max_sim_request,
    names_request,
    passages_of_request,
    passages_request,
    sparse_batch,
    speakers_request,
    titled_request,
)
from orion_recall.index.embedded.shard import ADVICE, LiveShard, ReplacedShard
from orion_recall.index.embedded.writer import EdgeWriter, SpeakerCache
from orion_recall.index.embedded.writes import read_vectors, read_versions
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import OF, MemorySearch, compared_for, nearest, points_of
from orion_recall.index.points import memory_view, names_of, timed_keys
from orion_recall.index.record_identity import refuse_without
from orion_recall.index.speakers import speaker_scope
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.text.normal import memory_key
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Change, Memory, MemoryView, Scope, TimedKey


class EdgeIndex:
    """One shard with the lock of its folder and its threads. Searches run during writes."""

    kind = "index"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy: str | None = None

    def __init__(
        self, folder: Path, embedder: Embedder, sparse: SparseEncoder, *, room: DiskSpace | None = None
    ) -> None:
        self.folder, self.room, self.embedder, self.sparse = folder, room, embedder, sparse
        self._live = LiveShard(folder, embedder, room)
        self._readers = EngineThreads("the index", 2, name="index-read")
        self._writer = EngineThreads("the index", 1, name="index-write")
        self._writes = EdgeWriter(self._live, self._writer, embedder, sparse)
        self._speakers = SpeakerCache()
        self._search = MemorySearch()
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
    def position(self) -> int:
        """The position in the outbox up to which changes are applied."""
        metadata = self._live.metadata
        return metadata.position if metadata is not None else 0

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

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        """Nearest by cosine, best first; scores below `min_score` are left out."""
        self._live.checked()
        self._live.refuse_another_model()
        if self._live.has_values(OF):
            wanted = partial(passages_request, vector, scope, min_score)
            return await self._search.best(limit, lambda most: self._nearest(wanted(most)), self._memories_of)
        return await self._nearest(dense_request(vector, scope, limit, min_score))

    async def _nearest(self, request: qe.QueryRequest) -> list[tuple[int, float]]:
        shard = self._live.checked()
        points = await self._readers.run(lambda: shard.query(request))
        # Cast once: a call for each of hundreds of hits is seen in the figures. Our ids are numbers.
        return cast("list[tuple[int, float]]", [(point.id, point.score) for point in points])

    async def _memories_of(self, passages: Sequence[int]) -> Mapping[int, int]:
        """The memories of passages, by their keys."""
        shard = self._live.checked()
        records = await self._readers.run(lambda: shard.retrieve(list(passages), [OF], False))
        return {cast("int", record.id): (record.payload or {})[OF] for record in records}

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        """Of each memory of the keys whose nearest passage is not its first one, the number of that passage."""
        self._live.checked()
        self._live.refuse_another_model()
        if not keys or not self._live.has_values(OF):
            return {}
        request = passages_of_request(vector, tenant, keys, compared_for(keys))
        return nearest(await self._nearest(request), keys)

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: a list for each of `using`.

        `text` holds a memory's own words, `context` a turn's with those of its neighbours.
        """
        if not terms.indices:
            return [[] for _ in using]
        shard, batch = self._live.checked(), sparse_batch(terms, scope, limit, using)
        found = await self._readers.run(lambda: shard.query_batch(batch))
        hits = [[(point.id, point.score) for point in points if point.score > 0] for points in found]
        return cast("list[list[tuple[int, float]]]", hits)

    async def without_tokens(self) -> str | None:
        """Why `max_sim` cannot be asked; None when it can."""
        self._live.checked()
        self._live.refuse_another_model()
        metadata = self._live.metadata
        assert metadata is not None  # an open shard has some
        return metadata.without_tokens(IndexMetadata.of(self.embedder))

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        """For each memory of the keys the sum of the tokens' best dot products with its own tokens.

        Of a memory in `passages` those of the passage of that number."""
        points = points_of(keys, passages)
        shard, request = self._live.checked(), max_sim_request(tokens, points)
        found = await self._readers.run(lambda: shard.query(request))
        return {points[cast("int", point.id)]: point.score for point in found}

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """Entities whose names share words with the text: (label, score), best first."""
        points = await self._entities(text, tenant, limit)
        found = [(str((one.payload or {})["label"]), one.score) for one in points]
        return sorted(found, key=lambda one: (-one[1], one[0]))  # the engine leaves equal ones to chance

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        """The entities whose names share words with the text, best first: each with all its names."""
        return [names_of(point.payload or {}) for point in await self._entities(text, tenant, limit)]

    async def _entities(self, text: str, tenant: str, limit: int) -> Sequence[qe.ScoredPoint]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        shard, request = self._live.checked(), entity_request(terms, tenant, limit)
        return await self._readers.run(lambda: shard.query(request))

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """The entities whose names are nearest to the vector: (label, cosine), best first."""
        shard = self._live.checked()
        self._live.refuse_another_model()
        request = names_request(vector, tenant, limit)
        points = await self._readers.run(lambda: shard.query(request))
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        """The memories in scope that are called one of the names, by key with all their names."""
        if not names:
            return {}
        shard, request = self._live.checked(), titled_request(names, scope, limit)
        records, _ = await self._readers.run(lambda: shard.scroll(request))
        return {cast("int", record.id): (record.payload or {})["titles"] for record in records}

    async def has_titles(self, tenant: str) -> bool:
        """Whether any memory has a title, of whatever tenant."""
        return self._live.has_values("titles")

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        """The dated memories of the scope by their time."""
        shard = self._live.checked()
        request = in_time_order_request(scope, limit, newest_first=newest_first, without_sessions=without_sessions)
        records, _ = await self._readers.run(lambda: shard.scroll(request))
        points = ((cast("int", record.id), record.payload or {}) for record in records)
        return timed_keys(points, newest_first=newest_first)

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key. Keys that are not there are left out."""
        if not keys:
            return {}
        shard = self._live.checked()
        records = await self._readers.run(lambda: shard.retrieve(list(keys), True, False))
        return {cast("int", record.id): memory_view(cast("dict[str, Any]", record.payload)) for record in records}

    async def speakers(self, scope: Scope) -> frozenset[str]:
        """The speakers in the scope, as written: read from the shard once, then kept up to date."""
        scope = speaker_scope(scope)
        if (known := self._speakers.get(scope)) is not None:
            return known
        shard, position = self._live.checked(), self.position
        found = await self._readers.run(lambda: shard.facet(speakers_request(scope)))
        speakers = frozenset(str(hit.value) for hit in found.hits)
        if position == self.position:  # else a write in between may have added one
            self._speakers.put(scope, speakers)
        return speakers

    async def apply(self, changes: Sequence[Change]) -> None:
        """Applies outbox changes in order and advances the position. Idempotent."""
        if not changes:
            return
        written = await self._writes.apply(changes)
        self._speakers.note(changes)
        self._optimiser.note(written)

    async def prepare(self, changes: Sequence[Change]) -> None:
        """Embeds what `apply` gets next; writes nothing. A text that changes until then is embedded again."""
        await self._writes.prepare(changes)

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the index holds, by key."""
        shard = self._live.checked()
        return await self._readers.run(lambda: read_versions(shard))

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        """The vectors of memories, by key; of a long one that of its first passage."""
        shard = self._live.checked()
        self._live.refuse_another_model()
        return await self._readers.run(lambda: read_vectors(shard, keys))

    async def remove(self, keys: Sequence[int]) -> None:
        """Deletes memories that the record does not know; the position stays."""
        await self._writes.remove(keys)
        self._speakers.clear()

    async def save(self) -> None:
        """Flushes the shard, then writes its position: after a crash in between the changes come again."""
        await self._writes.save()

    def staged_rebuild(self) -> EdgeIndex | None:
        """The complete build by the same model that waits to be swapped in, not opened; None when there is none."""
        if (mine := metadata_if_known(self.embedder)) is None or self._live.metadata is None:
            return None
        place = build_place(self.folder, mine.model, mine.dimension, mine.weights_sha256, mine.tokens)
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
        readers, self._readers = self._readers, EngineThreads("the index", 2, name="index-read")
        self._speakers.clear()
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
