"""The index on a Qdrant server or cluster: the embedded one's points, in one collection for all workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import (
    MemorySearch,
    compared_for,
    in_parts,
    nearest,
    points_of,
)
from orion_recall.index.points import Name, memory_view, names_of, timed_keys
from orion_recall.index.qdrant.collection import QdrantCollection
from orion_recall.index.qdrant.points import scored
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.index.speakers import ByScope, speaker_scope
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
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.time_values import TimedKey
from orion_recall.values import Change, Memory, MemoryView, Scope

if TYPE_CHECKING:
    from qdrant_client.http import models as qm


KNOWN_S = 5.0
"""How long an answer of the server is taken for what it still says, in seconds."""
MOST_TENANTS = 10_000


@dataclass(slots=True)
class _Speakers:
    names: frozenset[str]
    until: float


class KnownSpeakers:
    """The speakers in each scope, as written."""

    def __init__(self) -> None:
        self._of = ByScope[_Speakers]()

    async def names(self, scope: Scope, ask: Callable[[], Awaitable[frozenset[str]]]) -> frozenset[str]:
        """The scope's speakers. The server is asked when what it said is too old; its first error is raised."""
        now = time.monotonic()
        known = self._of.get(scope)
        if known is not None and now < known.until:
            return known.names
        if known is not None:
            known.until = now + KNOWN_S  # one asks, the others go on with what was known
        try:
            names = await ask()
        except SourceError:
            if known is None:
                raise
            return known.names
        self._of.put(scope, _Speakers(names, now + KNOWN_S))
        return names

    def heard(self, memories: Iterable[Memory]) -> None:
        """Adds the speakers of memories that this process has just written."""
        self._of.heard(memories)


class QdrantIndex:
    """One collection. Nothing is sent before `open` or the first search.

    `has_record`: a record exists; until `expect` gives its identity only an empty collection is read.
    """

    kind = "index"
    shared = True
    damage: str | None = None
    stalled: str | None = None

    def __init__(
        self,
        server: QdrantServer,
        collection: str,
        embedder: Embedder,
        sparse: SparseEncoder,
        *,
        has_record: bool = False,
    ) -> None:
        self.embedder, self.sparse = embedder, sparse
        self._collection = QdrantCollection(server, collection, embedder, sparse, has_record=has_record)
        self._server, self._requests = server, self._collection.requests
        self._prefetch = VectorPrefetch(embedder)
        self._speakers = KnownSpeakers()
        self._search = MemorySearch()
        self._with_passages: dict[str, tuple[bool, float]] = {}

    async def open(self) -> None:
        await self._collection.open()

    async def close(self) -> None:
        await self._collection.close()

    @property
    def copy(self) -> str:
        """Where the collection is: all who share it give it the same name."""
        return self._collection.where

    @property
    def position(self) -> int:
        return self._collection.metadata.position

    @property
    def database_identity(self) -> str | None:
        return self._collection.metadata.record or None

    def expect(self, identity: str) -> None:
        self._collection.expect(identity)

    async def adopt(self) -> None:
        await self._collection.adopt()

    async def check(self) -> None:
        await self._collection.check()

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        async def search(most: int) -> list[tuple[int, float]]:
            (found,) = await self._query([self._requests.dense_query(vector, scope, most, min_score)])
            return scored(found)

        return await self._search.best(limit, search, self._collection.memories_of)

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        if not keys or not await self._has_passages(tenant):
            return {}
        request = self._requests.passages_query(vector, tenant, keys, compared_for(keys))
        (found,) = await self._server.ask_if_well(lambda: self._query([request]))
        return nearest(scored(found), keys)

    async def _has_passages(self, tenant: str) -> bool:
        """Whether a memory of the tenant has further passages; what others wrote is seen after a few seconds."""
        now = time.monotonic()
        known, until = self._with_passages.get(tenant, (False, 0.0))
        if now >= until:
            known = await self._server.ask_if_well(lambda: self._collection.has_passages(tenant))
            if len(self._with_passages) >= MOST_TENANTS:
                self._with_passages.clear()
            self._with_passages[tenant] = known, now + KNOWN_S
        return known

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        if not terms.indices:
            return [[] for _ in using]
        requests = [self._requests.sparse_query(terms, scope, limit, using=name) for name in using]
        return [scored(found, above=0.0) for found in await self._query(requests)]

    async def without_tokens(self) -> str | None:
        await self.check()
        return self._collection.metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse))

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        points = points_of(keys, passages)
        request = self._requests.max_sim_query(tokens, points)
        (found,) = await self._server.ask_if_well(lambda: self._query([request]))
        return {points[key]: score for key, score in scored(found)}

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        points = await self._entities(text, tenant, limit)
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return [names_of(point.payload or {}) for point in await self._entities(text, tenant, limit)]

    async def _entities(self, text: str, tenant: str, limit: int) -> Sequence[qm.ScoredPoint]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        scope, payload = Scope(tenant=tenant), ["label", "aliases"]
        request = self._requests.sparse_query(terms, scope, limit, using="entity", payload=payload)
        (found,) = await self._server.aside(lambda: self._query([request]))
        return found.points

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        request = self._requests.names_query(vector, tenant, limit)
        (found,) = await self._server.aside(lambda: self._query([request]))
        return [(str((point.payload or {})["label"]), point.score) for point in found.points]

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        if not names:
            return {}
        records = await self._server.aside(lambda: self._titled(names, scope, limit))
        return {cast("int", record.id): (record.payload or {})["titles"] for record in records}

    async def has_titles(self, tenant: str) -> bool:
        """Always true: whether there are any is not known here without asking for them."""
        return True

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        records = await self._server.ask_if_well(
            lambda: self._by_time(scope, limit, newest_first=newest_first, without_sessions=without_sessions)
        )
        points = ((cast("int", record.id), record.payload or {}) for record in records)
        return timed_keys(points, newest_first=newest_first)

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if not keys:
            return {}
        records = await self._server.ask_if_well(lambda: self._records(keys))
        return {cast("int", record.id): memory_view(record.payload or {}) for record in records}

    async def speakers(self, scope: Scope) -> frozenset[str]:
        known = speaker_scope(scope)
        return await self._speakers.names(known, lambda: self._server.aside(lambda: self._speaking(known)))

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self.check()
        changes = (await in_parts(changes))[0]
        held, names = (
            await self._collection.held_of(keys_of(changes)),
            await self._collection.names_of(name_keys_of(changes)),
        )
        await self._prefetch.vectors(texts_to_embed(changes, held, with_tokens=self._writes_tokens()))
        await self._prefetch.of_names(names_to_embed(changes, names))

    async def apply(self, changes: Sequence[Change]) -> None:
        """Applies outbox changes in order and advances the position. Idempotent.

        Only one of the workers that share the collection may do this at a time: see `WriterLock`.
        """
        for part in await in_parts(changes):
            await self._apply(part, keep_vectors=True)

    async def apply_anew(self, changes: Sequence[Change]) -> None:
        """As `apply`; what has not changed is embedded again as well."""
        for part in await in_parts(changes):
            await self._apply(part, keep_vectors=False)

    async def _apply(self, changes: Sequence[Change], *, keep_vectors: bool) -> None:
        if not changes:
            return
        await self.check()
        before = self._collection.metadata
        held = await self._collection.held_of(keys_of(changes))
        names = await self._collection.names_of(name_keys_of(changes)) if keep_vectors else {}
        if not keep_vectors:
            held = {key: one._replace(dense=None) for key, one in held.items()}
        with_tokens = self._writes_tokens()
        step = await build_write_batch(
            changes, held, self._prefetch, self.sparse, names=names, with_tokens=with_tokens
        )
        await self._collection.write(step)
        self._with_passages.clear()
        # First the data, then the position: a crash between the two writes it again.
        if (now := await self._collection.read_metadata()) != before:
            self._collection.recheck()
            if now is not None and now.made == before.made and now.position > before.position:
                # Another process has written, and this write may be older: all from here on is applied again.
                await self._collection.write_metadata(before)
            raise TransientSourceError(
                f"the collection {self.copy} was created again or written by another process: it is tried again"
            )
        await self._collection.write_metadata(
            before.at(changes[-1].position).written_by(IndexMetadata.of(self.embedder, self.sparse))
        )
        self._speakers.heard(change.memory for change in changes if change.memory.is_live)

    async def held(self) -> Mapping[int, int]:
        return await self._collection.versions()

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        held = await self._server.aside(lambda: self._collection.held_of(keys))
        return {key: one.dense for key, one in held.items() if one.dense is not None}

    async def remove(self, keys: Sequence[int]) -> None:
        await self._collection.opened()
        held = await self._collection.held_of(keys)
        forgotten = sorted({Name(one.tenant, name) for one in held.values() for name in one.names})
        gone = list(keys)
        await self._collection.write(WriteBatch(points=[], gone=gone, forgotten=forgotten, replaced=gone))

    def _writes_tokens(self) -> bool:
        """Whether what is written has vectors of its tokens, as all that was written before."""
        self._prefetch.with_tokens = (
            self._collection.metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse)) is None
        )
        return self._prefetch.with_tokens

    async def _query(self, requests: Sequence[qm.QueryRequest]) -> list[qm.QueryResponse]:
        one = self._collection
        await one.check()
        return await one.ask(one.client.query_batch_points(one.name, requests))

    async def _records(self, keys: Sequence[int]) -> list[qm.Record]:
        one = self._collection
        await one.check()
        return await one.ask(one.client.retrieve(one.name, list(keys), with_payload=True))

    async def _titled(self, names: Sequence[str], scope: Scope, limit: int) -> list[qm.Record]:
        one = self._collection
        await one.check()
        call = one.client.scroll(
            one.name,
            scroll_filter=self._requests.scope_filter(scope, titles=names),
            limit=limit,
            with_payload=["titles"],
        )
        records, _ = cast("tuple[list[qm.Record], Any]", await one.ask(call))
        return records

    async def _by_time(
        self, scope: Scope, limit: int, *, newest_first: bool, without_sessions: Sequence[str]
    ) -> list[qm.Record]:
        one, requests = self._collection, self._requests
        await one.check()
        within = (
            requests.scope_without(scope, without_sessions) if without_sessions else requests.scope_filter(scope)
        )
        call = one.client.scroll(
            one.name,
            scroll_filter=within,
            limit=limit,
            with_payload=["ts", "session"],
            order_by=requests.by_time(newest_first=newest_first),
        )
        records, _ = cast("tuple[list[qm.Record], Any]", await one.ask(call))
        return records

    async def _speaking(self, scope: Scope) -> frozenset[str]:
        one = self._collection
        await one.check()
        within = self._requests.scope_filter(scope)
        call = one.client.facet(one.name, "speaker", facet_filter=within, limit=1000, exact=True)
        facet: qm.FacetResponse = await one.ask(call)
        return frozenset(str(hit.value) for hit in facet.hits)
