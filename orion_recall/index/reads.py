"""Searches and reads of an index by its engine, embedded or a server, and writes of what a batch holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

from orion_recall.errors import SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.index.points import (
    TOKENS,
    TOLD,
    HeldName,
    HeldPoint,
    Name,
    held_point,
    memory_view,
    names_of,
    told_times_of,
)
from orion_recall.index.requests import (
    AnyOf,
    Engine,
    Filter,
    Is,
    Keys,
    Page,
    Record,
    Scored,
    Search,
    of_tenant,
    payload_of,
    scope_filter,
)
from orion_recall.index.texts import OF, MemorySearch, nearest, points_of, tenants_of
from orion_recall.index.write_batch import WriteBatch
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.scoring.intervals import tells_of
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import MemoryView, Scope, TimedKey

# A page of versions takes an embedded engine some milliseconds: recalls go in between.
_PAGE, _PAGE_VERSIONS = 1000, 500
# So many times as many entities are searched for as are wanted, for those of equal scores.
_TIES = 8
# Points of passages that are compared for each memory, to find its best one.
_COMPARED = 10


class IndexReads:
    """What is read of an index."""

    kind = "index"
    damage: str | None = None
    stalled: str | None = None

    def __init__(self, engine: Engine, embedder: Embedder, sparse: SparseEncoder) -> None:
        self.embedder, self.sparse = embedder, sparse
        self._engine = engine
        self._search = MemorySearch()

    def may_have_passages(self) -> bool:
        """Whether a search must be among further passages, too."""
        return True

    async def has_passages(self, tenant: str) -> bool:
        """Whether a memory of the tenant may have further passages."""
        where = Filter(must=(Is("tenant", tenants_of(tenant)[1]),))
        return bool((await self._engine.scroll(Page(where, 1), "well"))[0])

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        is_among_passages = self.may_have_passages()
        where, payload = scope_filter(scope, with_passages=is_among_passages, told_roughly=True), _told(scope)

        async def among_passages(most: int) -> list[tuple[int, float]]:
            request = Search(vector, "dense", where, most, min_score=min_score, payload=payload, among_all=True)
            (found,) = await self._engine.search([request])
            return _scores(_told_in(found, scope))

        if is_among_passages:
            return await self._search.best(limit, among_passages, self._memories_of)
        return (await among_passages(_most(scope, limit)))[:limit]

    async def _memories_of(self, passages: Sequence[int]) -> Mapping[int, int]:
        return {one.id: payload_of(one)[OF] for one in await self._engine.retrieve(passages, [OF])}

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        if not keys or not await self.has_passages(tenant):
            return {}
        where = Filter(must=(of_tenant(tenant),), should=(Keys(tuple(keys)), AnyOf(OF, tuple(keys))))
        (found,) = await self._engine.search([Search(vector, "dense", where, _COMPARED * len(keys))], "well")
        return nearest(_scores(found), keys)

    async def search_sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: by a memory's own words, and by a turn's with those of its neighbours."""
        if not terms.indices:
            return [[], []]
        where, payload = scope_filter(scope, told_roughly=True), _told(scope)
        words = Search(terms, "text", where, _most(scope, limit), tenant=scope.tenant, payload=payload)
        found = await self._engine.search([words, words._replace(using="context")])
        return [[hit for hit in _scores(_told_in(points, scope)[:limit]) if hit[1] > 0] for points in found]

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        points = points_of(keys, passages)
        request = Search(tokens, TOKENS, Filter(must=(Keys(tuple(points)),)), len(points))
        (found,) = await self._engine.search([request], "well")
        return {points[name]: score for name, score in _scores(found)}

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        # Engines leave equal ones to chance, a rebuilt index to another: the name decides which of them come.
        found = _labelled(await self._entities(text, tenant, _TIES * limit))
        return sorted(found, key=lambda one: (-one[1], one[0]))[:limit]

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return [names_of(payload_of(one)) for one in await self._entities(text, tenant, limit)]

    async def _entities(self, text: str, tenant: str, limit: int) -> Sequence[Scored]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        where = scope_filter(Scope(tenant=tenant))
        request = Search(terms, "entity", where, limit, tenant=tenant, payload=["label", "aliases"])
        (found,) = await self._engine.search([request], "aside")
        return found

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        request = Search(vector, "name", scope_filter(Scope(tenant=tenant)), limit, payload=["label"])
        (found,) = await self._engine.search([request], "aside")
        return _labelled(found)

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        if not names:
            return {}
        page = Page(scope_filter(scope, titles=names), limit, ["titles"])
        records, _ = await self._engine.scroll(page, "aside")
        return {one.id: payload_of(one)["titles"] for one in records}

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        where = scope_filter(scope)
        if without_sessions:
            where = where._replace(must_not=(AnyOf("session", tuple(without_sessions)),))
        page = Page(where, limit, ["ts", "session"], newest_first)
        records, _ = await self._engine.scroll(page, "well")
        payloads = ((one.id, payload_of(one)) for one in records)
        found = [TimedKey(key, payload["ts"], payload.get("session")) for key, payload in payloads]
        return sorted(found, key=lambda one: (-one.ts if newest_first else one.ts, one.key))

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        found = await self._engine.retrieve(keys, True, patience="well") if keys else ()
        try:
            return {one.id: memory_view(payload_of(one)) for one in found}
        except (LookupError, TypeError, ValueError) as error:
            raise SourceError(f"a point of the index is not as it was written ({type(error).__name__})") from error

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        found = await self._engine.retrieve(keys, False, ["dense"], "aside")
        return {one.id: one.vector["dense"] for one in found if "dense" in (one.vector or {})}

    async def held(self) -> Mapping[int, int]:
        versions: dict[int, int] = {}
        async for records in _pages(self._engine, Page(Filter(), _PAGE_VERSIONS, ["version"])):
            await FOREGROUND.pause()
            # Neither entities nor passages have one.
            versions |= {one.id: int(one.payload["version"]) for one in records if payload_of(one).get("version")}
        return versions


async def held_points(engine: Engine, keys: Sequence[int], *, with_tokens: bool) -> dict[int, HeldPoint]:
    """What the index holds of the memories, by key, with vectors."""
    vectors = ["dense", TOKENS] if with_tokens else ["dense"]
    found = await engine.retrieve(keys, True, vectors)
    return {one.id: held_point(payload_of(one), one.vector or {}) for one in found}


async def held_names(engine: Engine, keys: Sequence[int]) -> dict[int, HeldName]:
    """What the index holds of the entities, by key; those without a vector of their name are left out."""
    found = await engine.retrieve(keys, ["label", "aliases"], ["name"]) if keys else ()
    return {
        one.id: HeldName(names[0], one.vector["name"], names[1:])
        for one in found
        if "name" in (one.vector or {}) and (names := names_of(payload_of(one)))
    }


async def write(engine: Engine, batch: WriteBatch, *, has_passages: bool = True) -> None:
    """Writes the batch. Entities first: a retry still finds which names were dropped."""
    written = {point.key for point in batch.points}
    others, gone = (Keys((*batch.gone, *written)),), list[int]()
    for name in batch.forgotten:
        where = Filter(must=(Is("tenant", name.tenant), Is("names", name.folded)), must_not=others)
        # One is enough: to count them takes as long as a common name is common.
        if not (await engine.scroll(Page(where, 1)))[0]:
            gone.append(name.key)
    gone += batch.gone
    if batch.replaced and has_passages:
        async for records in _pages(engine, Page(Filter(must=(AnyOf(OF, tuple(batch.replaced)),)), _PAGE)):
            gone += [one.id for one in records if one.id not in written]
    if gone:
        await engine.delete(gone)
    if batch.points:
        await engine.upsert(batch.points)


def removal(keys: Sequence[int], held: Mapping[int, HeldPoint]) -> WriteBatch:
    """The batch that takes memories out, with their names."""
    forgotten = sorted({Name(one.tenant, name) for one in held.values() for name in one.names})
    return WriteBatch(points=[], gone=list(keys), forgotten=forgotten, replaced=list(keys))


async def _pages(engine: Engine, page: Page) -> AsyncIterator[Sequence[Record]]:
    while True:
        records, offset = await engine.scroll(page)
        yield records
        if offset is None:
            return
        page = page._replace(offset=offset)


def _most(scope: Scope, limit: int) -> int:
    """How many are asked for: told times are compared roughly first, and some memories are left out then."""
    return limit + limit // 4 if scope.told else limit


def _told(scope: Scope) -> Sequence[str]:
    return [TOLD] if scope.told else []


def _told_in(points: Sequence[Scored], scope: Scope) -> Sequence[Scored]:
    """The points of which one told time overlaps one of the scope's intervals; all where it has none."""
    if not scope.told:
        return points
    return [one for one in points if tells_of(told_times_of(payload_of(one).get(TOLD) or ()), scope.told)]


def _scores(points: Sequence[Scored]) -> list[tuple[int, float]]:
    # Cast once: a call for each of hundreds of hits is seen in the figures.
    return cast("list[tuple[int, float]]", [(point.id, point.score) for point in points])


def _labelled(points: Sequence[Scored]) -> list[tuple[str, float]]:
    return [(str(payload_of(point)["label"]), point.score) for point in points]
