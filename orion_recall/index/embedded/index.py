"""The embedded index: Qdrant Edge in this process, holding dense and keyword vectors of every memory.

One folder is one shard and belongs to one process. The folder's `index.json` names the embedding model, its
dimension and its weights, and how far the index has come in the outbox; an index made by another model is
refused, unless one by the right model stands complete beside it: then that one takes its place
(`edge_places`). Points are keyed by `text.memory_key`, so that a rebuilt index is the same index.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import qdrant_edge as qe

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError, SourceError
from orion_recall.index.embedded.folders import build_place, is_complete, swap
from orion_recall.index.embedded.metadata import card_if_known
from orion_recall.index.embedded.optimiser import EdgeOptimiser
from orion_recall.index.embedded.points import max_sim_request, scope_filter, titled_request
from orion_recall.index.embedded.shard import Before, KeptShard
from orion_recall.index.embedded.writes import read_held, read_names, read_versions
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.metadata import IndexCard
from orion_recall.index.points import HeldName, HeldPoint, Name, memory_view, names_of
from orion_recall.index.record_identity import refuse_another, refuse_without
from orion_recall.index.vector_prefetch import VectorPrefetch
from orion_recall.index.write_batch import (
    WriteBatch,
    build_write_batch,
    keys_of,
    name_keys_of,
    names_to_embed,
    texts_to_embed,
)
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, MemoryView, Scope

log = logging.getLogger("orion_recall.sources")

# The engine holds Python's lock while it flushes, some 100 ms: seldom, then, and what a crash takes comes again.
_SAVE_AFTER_S = 10.0
_ADVICE = "delete that folder, and it will be built again from this record, or set ORION_DATA_DIR to another"


class EdgeIndex:
    """The shard, its lock and its threads. Searches run beside writes."""

    kind = "index"
    shared = False
    copy: str | None = None

    def __init__(self, folder: Path, embedder: Embedder, sparse: SparseEncoder) -> None:
        self.folder = folder
        self.embedder, self.sparse = embedder, sparse
        self._ahead = VectorPrefetch(embedder)
        self._kept = KeptShard(folder, embedder)
        self._readers = EngineThreads("the index", 2, name="index-read")
        self._writer = EngineThreads("the index", 1, name="index-write")
        self._speakers: dict[str, frozenset[str]] = {}
        self._optimiser = EdgeOptimiser(folder, self._kept, self._writer, self._leave)
        self._saving: asyncio.Task[None] | None = None
        self._lock: FolderLock | None = None
        self._expected: str | None = None

    async def open(self) -> None:
        """Lock the folder, then load the shard or make it. While the embedder does not know its model, a shard that
        is there is loaded, and checked when it does; one that is not is made with the first memories.

        Raises EngineError when another process has the folder, SourceError when the shard cannot be used; after
        AnotherRecordsCopy it is open, and refuses to be read.
        """
        # The lock comes first: a second load, even a failed one, breaks the owner's next flush.
        self._lock = FolderLock.acquire(
            self.folder,
            what="the index",
            hint="give each worker its own ORION_DATA_DIR",
        )
        try:
            await self._writer.run(self._kept.load)
        except (SourceError, EngineError):
            await self.close()
            raise
        await self.check()

    async def close(self) -> None:
        """Flush what was written and let the folder go."""
        await self._optimiser.end()
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        with contextlib.suppress(SourceError):
            await self.save()
        with contextlib.suppress(SourceError):
            await self._writer.run(self._kept.close)
        try:
            await asyncio.gather(self._readers.close(), self._writer.close())
        finally:
            self._kept.release()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @property
    def position(self) -> int:
        """How far this copy has come in the outbox."""
        card = self._kept.card
        return card.position if card is not None else 0

    @property
    def record(self) -> str | None:
        """The mark of the record that the index is of."""
        card = self._kept.card
        return (card.record or None) if card is not None else None

    def expect(self, record: str) -> None:
        """The mark of the record that the index must be of."""
        self._expected = record

    async def check(self) -> None:
        """AnotherRecordsCopy when it is another record's."""
        self._refuse_another_record()

    async def adopt(self, newest: Memory | None) -> None:
        """Mark an index without a mark: the folder was this process's own before there were marks, or is new."""
        expected = self._expected
        if expected is None or self._kept.card is None:
            return
        if newest is not None:
            held = await self.fetch([memory_key(newest.tenant, newest.id)])
            refuse_without(f"the index in {self.folder}", newest, held, advice=_ADVICE)
        await self._writer.run(lambda: self._kept.mark(expected))
        await self.save()

    @property
    def count(self) -> int:
        """Points in the shard: memories and entities."""
        return self._open_shard().info().points_count

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        """Nearest by cosine, best first; scores below `min_score` are left out."""
        shard = self._open_shard()
        self._kept.refuse_another_model()
        query = qe.Query.Nearest(list(vector), using="dense")
        request = qe.QueryRequest(query=query, limit=limit, filter=scope_filter(scope), score_threshold=min_score)
        points = await self._readers.run(lambda: shard.query(request))
        # Cast once: a call for each of hundreds of hits is seen in the figures. Our ids are numbers.
        return cast("list[tuple[int, float]]", [(point.id, point.score) for point in points])

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: a list for each of `using`.

        `text` holds a memory's own words, `context` a turn's with those of its neighbours.
        """
        if not terms.indices:
            return [[] for _ in using]
        shard, conditions = self._open_shard(), scope_filter(scope)
        vector = qe.SparseVector(list(terms.indices), list(terms.values))
        batch = qe.QueryBatchRequest(
            [
                qe.QueryRequest(query=qe.Query.Nearest(vector, using=name), limit=limit, filter=conditions)
                for name in using
            ]
        )
        found = await self._readers.run(lambda: shard.query_batch(batch))
        hits = [[(point.id, point.score) for point in points if point.score > 0] for points in found]
        return cast("list[list[tuple[int, float]]]", hits)

    async def without_tokens(self) -> str | None:
        """Why `max_sim` cannot be asked; None when it can."""
        self._open_shard()
        self._kept.refuse_another_model()
        card = self._kept.card
        assert card is not None  # an open shard has one
        return card.without_tokens(IndexCard.of(self.embedder))

    async def max_sim(self, tokens: Tokens, keys: Sequence[int]) -> Mapping[int, float]:
        """For each memory of the keys the sum of the tokens' best dot products with its own tokens."""
        shard, request = self._open_shard(), max_sim_request(tokens, keys)
        points = await self._readers.run(lambda: shard.query(request))
        return cast("dict[int, float]", {point.id: point.score for point in points})

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """Entities whose names share words with the text: (label, score), best first."""
        points = await self._entities(text, tenant, limit)
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def names_beside(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        """The entities whose names share words with the text, best first: each with all its names."""
        return [names_of(point.payload or {}) for point in await self._entities(text, tenant, limit)]

    async def _entities(self, text: str, tenant: str, limit: int) -> Sequence[qe.ScoredPoint]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        query = qe.Query.Nearest(qe.SparseVector(list(terms.indices), list(terms.values)), using="entity")
        shard = self._open_shard()
        request = qe.QueryRequest(
            query=query, limit=limit, filter=scope_filter(Scope(tenant=tenant)), with_payload=["label", "aliases"]
        )
        return await self._readers.run(lambda: shard.query(request))

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """The entities whose names are nearest to the vector: (label, cosine), best first."""
        shard = self._open_shard()
        self._kept.refuse_another_model()
        request = qe.QueryRequest(
            query=qe.Query.Nearest(list(vector), using="name"),
            limit=limit,
            filter=scope_filter(Scope(tenant=tenant)),
            with_payload=["label"],
        )
        points = await self._readers.run(lambda: shard.query(request))
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        """The memories in scope that are called one of the names, by key with all their names."""
        if not names:
            return {}
        shard, request = self._open_shard(), titled_request(names, scope, limit)
        records, _ = await self._readers.run(lambda: shard.scroll(request))
        return {cast("int", record.id): (record.payload or {})["titles"] for record in records}

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key. Keys that are not there are left out."""
        if not keys:
            return {}
        shard = self._open_shard()
        records = await self._readers.run(lambda: shard.retrieve(list(keys), True, False))
        return {cast("int", record.id): memory_view(cast("dict[str, Any]", record.payload)) for record in records}

    async def speakers(self, tenant: str) -> frozenset[str]:
        """Who speaks in the tenant's memories, as written: asked of the shard once, then kept up to date."""
        if (known := self._speakers.get(tenant)) is not None:
            return known
        shard, position = self._open_shard(), self.position
        request = qe.FacetRequest("speaker", 1000, True, scope_filter(Scope(tenant=tenant)))
        found = await self._readers.run(lambda: shard.facet(request))
        known = frozenset(str(hit.value) for hit in found.hits)
        if position == self.position:  # else somebody may have spoken between the look and now
            self._speakers[tenant] = known
        return known

    async def apply(self, changes: Sequence[Change]) -> None:
        """Put changes into the index, in order, and move the position. Again is harmless."""
        if not changes:
            return
        held, names = await self._held_before(changes)
        with_tokens = self._writes_tokens()
        step = await build_write_batch(
            changes, held, self._ahead, self.sparse, names=names, with_tokens=with_tokens
        )
        if self._kept.card is None:  # a server that embeds may not have told its model before it was first asked
            mine = IndexCard.of(self.embedder)
            await self._writer.run(lambda: self._kept.make(mine))
        self._kept.refuse_another_model()
        await self._written(step, changes[-1].position)
        self._note_speakers(changes)
        self._optimiser.note(len(step.points) + len(step.gone))

    async def prepare(self, changes: Sequence[Change]) -> None:
        """Embed what is applied next. It is no write: what is embedded and then changes is embedded again."""
        held, names = await self._held_before(changes)
        await self._ahead.vectors(texts_to_embed(changes, held, with_tokens=self._writes_tokens()))
        await self._ahead.of_names(names_to_embed(changes, names))

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the index holds, by key."""
        shard = self._open_shard()
        return await self._readers.run(lambda: read_versions(shard))

    async def remove(self, keys: Sequence[int]) -> None:
        """Takes memories out that the record knows nothing of; the position stays."""
        held = await self._held_of(keys)
        forgotten = sorted({Name(one.tenant, name) for one in held.values() for name in one.names})
        step = WriteBatch(points=[], gone=list(keys), forgotten=forgotten)
        await self._written(step, self.position)
        self._speakers.clear()

    async def save(self) -> None:
        """What was written is on disk, and then how far that is: a crash between the two writes it again."""
        await self._writer.run(self._kept.save)

    def beside(self) -> EdgeIndex | None:
        """The index by the same model that stands complete beside this one, not opened."""
        if (mine := card_if_known(self.embedder)) is None or self._kept.card is None:
            return None
        place = build_place(self.folder, mine.model, mine.dimension, mine.weights_sha256, mine.tokens)
        return EdgeIndex(place, self.embedder, self.sparse) if is_complete(place) else None

    async def take(self, built: EdgeIndex) -> None:
        """The index that was built beside takes this one's place; searches that run end with the old one."""
        await self._optimiser.end()
        await built.save()
        self._open_shard()
        lock, built._lock = built._lock, None
        before = self._kept.take(built._kept, lock)
        await self._leave(before)
        await asyncio.gather(built._readers.close(), built._writer.close())

    async def _leave(self, before: Before) -> None:
        """After another shard has taken its place: its searches end, then it is closed and deleted."""
        readers, self._readers = self._readers, EngineThreads("the index", 2, name="index-read")
        self._speakers.clear()
        await asyncio.sleep(0)  # what was asked of the old one in this turn of the loop is on its way now
        await readers.close()
        with contextlib.suppress(SourceError):
            await self._writer.run(before.shard.close)
        await self._writer.run(lambda: swap(self.folder, self._kept.place))
        if before.lock is not None:
            before.lock.release()

    async def optimise(self) -> None:
        """Build the search structures for what was written, here and now: Python stands still meanwhile.

        Searches are right before it, only slower. An index that is in use does it by itself, in another process.
        """
        self._optimiser.forget()
        await self._writer.run(lambda: cast("None", self._open_shard().optimize()))

    async def _written(self, step: WriteBatch, position: int) -> None:
        await self._writer.run(lambda: self._kept.write(step, position))
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_in_time())

    async def _held_before(
        self, changes: Sequence[Change]
    ) -> tuple[Mapping[int, HeldPoint], Mapping[int, HeldName]]:
        """What the shard holds of the changes' memories and of the names that they give."""
        if self._kept.card is None:
            return {}, {}
        # The shard that is live when it is read: an optimised copy may take its place at every await.
        keys = name_keys_of(changes)
        held = await self._held_of(keys_of(changes))
        return held, await self._writer.run(lambda: read_names(self._open_shard(), keys))

    async def _held_of(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        return await self._writer.run(lambda: read_held(self._open_shard(), keys))

    def _writes_tokens(self) -> bool:
        """Whether what is written has vectors of its tokens: those of a new index, else those it has always had."""
        mine = card_if_known(self.embedder)
        card = mine if self._kept.card is None else self._kept.card
        self._ahead.with_tokens = mine is not None and card is not None and card.without_tokens(mine) is None
        return self._ahead.with_tokens

    def _note_speakers(self, changes: Sequence[Change]) -> None:
        for tenant in {change.memory.tenant for change in changes if change.memory.tenant in self._speakers}:
            mine = [change.memory for change in changes if change.memory.tenant == tenant]
            if any(memory.version > 1 or not memory.is_live for memory in mine):
                del self._speakers[tenant]  # somebody may have fallen silent: asked anew
            else:
                self._speakers[tenant] |= {memory.speaker for memory in mine if memory.speaker}

    async def _save_in_time(self) -> None:
        while not self._kept.is_saved:
            await asyncio.sleep(_SAVE_AFTER_S)
            try:
                await self.save()
            except SourceError as error:
                log.warning("the index in %s could not be saved: %s", self.folder, error)

    def _refuse_another_record(self) -> None:
        refuse_another(f"the index in {self.folder}", self.record, self._expected, advice=_ADVICE)

    def _open_shard(self) -> qe.EdgeShard:
        self._refuse_another_record()
        if (shard := self._kept.shard) is not None:
            return shard
        if self._lock is not None:
            raise SourceError(f"the index in {self.folder} is empty, and its embedding model is not known yet")
        raise SourceError(f"the index in {self.folder} is not open")
