"""Searches and reads of the embedded index: each a call into the shard, in the index's reading threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import qdrant_edge as qe

from orion_recall.foreground import FOREGROUND
from orion_recall.index.embedded.points import (
    dense_request,
    entity_request,
    in_time_order_request,
    max_sim_request,
    names_request,
    passages_of_request,
    sparse_batch,
    speakers_request,
    spoken_request,
    titled_request,
)
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.embedded.writes import read_vectors, read_versions
from orion_recall.index.engine_threads import EngineThreads, InThisThread
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import OF, MemorySearch, compared_for, nearest, points_of
from orion_recall.index.points import TOLD, memory_view, names_of, timed_keys, told_times_of
from orion_recall.index.speakers import SpeakerCache, speaker_scope
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.scoring.intervals import tells_of
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.time_values import TimedKey
from orion_recall.values import MemoryView, Scope

_MOST = 4096
_MOST_CHARS = 4000


class KeptViews:
    """The memories that were read or asked for last: `most` of them at least, and at most twice as many.

    With `most` 0 none is kept. A longer text is not kept, so that there is a bound to the memory that they take.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        # Two generations are a cheap least-recently-used cache: what is asked for moves to the younger one.
        self._young: dict[int, MemoryView] = {}
        self._old: dict[int, MemoryView] = {}
        self._writing = 0
        self._writes = 0

    async def fetched(
        self, keys: Sequence[int], read: Callable[[Sequence[int]], Awaitable[Mapping[int, MemoryView]]]
    ) -> Mapping[int, MemoryView]:
        """The memories of these keys, in their order; `read` reads those that are not kept."""
        young = self._young.get
        views = {key: view for key in keys if (view := young(key)) is not None}
        if len(views) == len(keys):
            return views
        views = {key: view for key in keys if (view := self._get(key)) is not None}
        if not (missing := [key for key in keys if key not in views]):
            return views
        before = self._writes
        read_now = await read(missing)
        if self._most and not self._writing and before == self._writes:
            self._keep(read_now)
        return {key: view for key in keys if (view := views.get(key) or read_now.get(key)) is not None}

    def may_have_passages(self, keys: Sequence[int]) -> list[int]:
        """The keys without those of memories that are known to have no passages."""
        young, old = self._young.get, self._old.get
        return [key for key in keys if (view := young(key) or old(key)) is None or view.passages]

    @contextmanager
    def written(self, keys: Iterable[int]) -> Generator[None]:
        """These are written while the block runs: whoever asks for them reads them anew."""
        self._writing += 1
        self._writes += 1
        self._forget(keys := tuple(keys))
        try:
            yield
        finally:
            self._writing -= 1
            self._writes += 1
            self._forget(keys)

    def clear(self) -> None:
        self._writes += 1
        self._young, self._old = {}, {}

    def _get(self, key: int) -> MemoryView | None:
        if (view := self._young.get(key)) is None and (view := self._old.get(key)) is not None:
            self._add(key, view)
        return view

    def _keep(self, views: Mapping[int, MemoryView]) -> None:
        for key, view in views.items():
            if len(view.text) <= _MOST_CHARS:
                self._add(key, view)

    def _add(self, key: int, view: MemoryView) -> None:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = view

    def _forget(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._young.pop(key, None)
            self._old.pop(key, None)


T = TypeVar("T")
TITLES = "titles"
Payload = dict[str, Any]


def reading_threads() -> EngineThreads:
    """The threads that searches and reads run in."""
    return EngineThreads("the index", 2, name="index-read")


class EdgeReads:
    """What is read of one shard. Searches run during writes.

    Requests are made, and what is found is read, in the thread that searches: the engine holds Python's lock, and
    the event loop has its turns between two calls.
    """

    def __init__(self, live: LiveShard, embedder: Embedder, sparse: SparseEncoder) -> None:
        self.embedder, self.sparse = embedder, sparse
        self._live = live
        self._readers = self._new_readers()
        self._speakers = SpeakerCache()
        self._views = KeptViews()
        self._search = MemorySearch()
        # Why late interaction cannot be asked for, of an index with these tokens: its embedder stays the same.
        self._without_tokens: tuple[str | None, str | None] = None, None

    def _new_readers(self) -> EngineThreads | InThisThread:
        return reading_threads()

    @property
    def metadata(self) -> IndexMetadata | None:
        return self._live.metadata

    @property
    def position(self) -> int:
        return self.metadata.position if self.metadata is not None else 0

    def has_values(self, field: str) -> bool:
        """Whether any memory has a value in the indexed field, of whatever tenant."""
        return self._live.has_values(field)

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        self._live.checked()
        self._live.refuse_another_model()
        if self._live.has_values(OF):

            def among_passages(most: int) -> Awaitable[list[tuple[int, float]]]:
                return self._nearest(
                    lambda shard: dense_request(shard, vector, scope, most, min_score, with_passages=True), scope
                )

            return await self._search.best(limit, among_passages, self._memories_of)
        most = _most(scope, limit)
        found = await self._nearest(lambda shard: dense_request(shard, vector, scope, most, min_score), scope)
        return found[:limit]

    async def _nearest(
        self, request: Callable[[qe.EdgeShard], qe.QueryRequest], scope: Scope | None = None
    ) -> list[tuple[int, float]]:
        """Ids and scores; with a scope of those whose told times are in it."""
        shard = self._live.checked()
        return await self._readers.run(lambda: _scores(_told_in(shard.query(request(shard)), scope)))

    async def _memories_of(self, passages: Sequence[int]) -> Mapping[int, int]:
        shard = self._live.checked()
        records = await self._readers.run(lambda: shard.retrieve(list(passages), [OF], False))
        return {cast("int", record.id): (record.payload or {})[OF] for record in records}

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        self._live.checked()
        self._live.refuse_another_model()
        if not self._live.has_values(OF):
            return {}
        if not (keys := self._views.may_have_passages(keys)):
            return {}
        found = await self._nearest(lambda _: passages_of_request(vector, tenant, keys, compared_for(keys)))
        return nearest(found, keys)

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: a list for each of `using`.

        `text` holds a memory's own words, `context` a turn's with those of its neighbours.
        """
        if not terms.indices:
            return [[] for _ in using]
        shard, frequencies = self._live.checked(), self._live.frequencies

        def found() -> list[list[tuple[int, float]]]:
            with_idf = frequencies.weighted(shard, scope.tenant, terms, using)
            lists = shard.query_batch(sparse_batch(terms, scope, _most(scope, limit), using, with_idf))
            return [[hit for hit in _scores(_told_in(points, scope)[:limit]) if hit[1] > 0] for points in lists]

        return await self._readers.run(found)

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
        shard = self._live.checked()

        def found() -> Mapping[int, float]:
            points = points_of(keys, passages)
            return {points[name]: score for name, score in _scores(shard.query(max_sim_request(tokens, points)))}

        return await self._readers.run(found)

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        found = await self._entities(text, tenant, limit, lambda payload: str(payload["label"]))
        return sorted(found, key=lambda one: (-one[1], one[0]))  # the engine leaves equal ones to chance

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return [names for names, _ in await self._entities(text, tenant, limit, names_of)]

    async def _entities(
        self, text: str, tenant: str, limit: int, read: Callable[[Payload], T]
    ) -> Sequence[tuple[T, float]]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        shard, frequencies = self._live.checked(), self._live.frequencies

        def found() -> Sequence[tuple[T, float]]:
            with_idf = frequencies.weighted(shard, tenant, terms, ("entity",))
            points = shard.query(entity_request(terms, tenant, limit, with_idf))
            return [(read(point.payload or {}), point.score) for point in points]

        return await self._readers.run(found)

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        shard = self._live.checked()
        self._live.refuse_another_model()
        request = names_request(vector, tenant, limit)
        points = await self._readers.run(lambda: shard.query(request))
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        if not names:
            return {}
        shard, request = self._live.checked(), titled_request(names, scope, limit)
        records, _ = await self._readers.run(lambda: shard.scroll(request))
        return {cast("int", record.id): (record.payload or {})["titles"] for record in records}

    async def has_titles(self, tenant: str) -> bool:
        """Whether any memory has a title, of whatever tenant."""
        return self.has_values(TITLES)

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        shard = self._live.checked()
        request = in_time_order_request(scope, limit, newest_first=newest_first, without_sessions=without_sessions)
        records, _ = await self._readers.run(lambda: shard.scroll(request))
        points = ((cast("int", record.id), record.payload or {}) for record in records)
        return timed_keys(points, newest_first=newest_first)

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if not keys:
            return {}
        shard = self._live.checked()
        return await self._views.fetched(keys, partial(self._retrieved, shard))

    async def _retrieved(self, shard: qe.EdgeShard, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        def read() -> Mapping[int, MemoryView]:
            records = shard.retrieve(list(keys), True, False)
            return {cast("int", record.id): memory_view(cast("Payload", record.payload)) for record in records}

        return await self._readers.run(read)

    async def speakers(self, scope: Scope) -> frozenset[str]:
        return await self._speakers.names(speaker_scope(scope), self.speakers_in)

    async def speakers_in(self, scope: Scope, among: Collection[str] | None) -> frozenset[str]:
        """As `speakers`, read from the shard: all of the `speaker_scope`, or those among some names."""
        shard = self._live.checked()

        def found() -> frozenset[str]:
            if among is None:
                return frozenset(str(hit.value) for hit in shard.facet(speakers_request(scope)).hits)
            return frozenset(name for name in among if shard.scroll(spoken_request(scope, name))[0])

        return await self._readers.run(found)

    async def held(self) -> Mapping[int, int]:
        versions: dict[int, int] = {}
        after: qe.PointId | None = None
        while True:
            await FOREGROUND.pause()
            # Asked for at every page: an optimised copy may have replaced the live shard.
            page, after = await self._readers.run(partial(read_versions, self._live.checked(), after))
            versions |= page
            if after is None:
                return versions

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        shard = self._live.checked()
        self._live.refuse_another_model()
        return await self._readers.run(lambda: read_vectors(shard, keys))


def _most(scope: Scope, limit: int) -> int:
    """How many are asked for: told times are compared roughly first, and some memories are left out then."""
    return limit + limit // 4 if scope.told else limit


def _told_in(points: Sequence[qe.ScoredPoint], scope: Scope | None) -> Sequence[qe.ScoredPoint]:
    """The points of which one told time overlaps one of the scope's intervals; all where it has none."""
    if scope is None or not scope.told:
        return points
    return [one for one in points if tells_of(told_times_of((one.payload or {}).get(TOLD) or ()), scope.told)]


def _scores(points: Sequence[qe.ScoredPoint]) -> list[tuple[int, float]]:
    # Cast once: a call for each of hundreds of hits is seen in the figures.
    return cast("list[tuple[int, float]]", [(point.id, point.score) for point in points])
