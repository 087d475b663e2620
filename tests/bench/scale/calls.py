"""Each engine call of a recall, alone on the stores: its CPU, and how much of the exact answer it finds.

The engines are called in this thread, so that the CPU is theirs alone. Postgres's share is the wall time of its
answer, which counts on a quiet machine only.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyoxigraph
import qdrant_edge as qe
from pydantic import SecretStr

from orion_recall.index.caches import speaker_scope
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.points import TermRarity, edge_filter, edge_requests
from orion_recall.index.embedded.shard import sparse_vectors
from orion_recall.index.points import TOKENS
from orion_recall.index.requests import Filter, Keys, Search, scope_filter
from orion_recall.postgres.pool import open_connection
from orion_recall.settings import Settings
from orion_recall.values import Scope
from tests.bench.fill_child import settings_of
from tests.bench.measure import Cost, cost, cost_of_calls
from tests.bench.recorded_inputs import Asked, Inputs, take_inputs
from tests.bench.running_worker import queries_from
from tests.bench.scale.memories import LARGE, SMALL
from tests.bench.scale.stores import Stores

_QUESTIONS = 24
_CANDIDATES = 100
DENSE, EXACT = "dense search", "dense search, exact"
KEYWORDS = "keywords (text, context)"
ENTITIES, LATE, FETCH = "names of entities", "late interaction", "fetch of the pool"
SPEAKERS, ONE_SPEAKER, IN_ORDER = "speakers in scope (once)", "one speaker (after a change)", "in time order"
VERSIONS = "versions of all (self check)"
_USING = ("text", "context")
SPARQL, SQL = "graph neighbourhood", "timeline in Postgres (wall)"

Call = Callable[[qe.EdgeShard, Asked, float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What each call costs for one tenant, and the mean share of the exact first 10 and 100 that is found."""

    tenant: str
    costs: Mapping[str, Cost]
    found: Mapping[int, float]
    segments: int


async def call_engines(stores: Stores, profile: str) -> list[Called]:
    """Both tenants; nobody else may have the stores' index and graph open."""
    return [await _called(stores, tenant, profile) for tenant in (SMALL, LARGE)]


async def _called(stores: Stores, tenant: str, profile: str) -> Called:
    settings = _settings(stores).changed(default_tenant=tenant)
    queries = itertools.islice(queries_from(stores.sessions[tenant], profile), _QUESTIONS)
    inputs = await take_inputs(settings, profile, list(queries), stores.now)
    return await asyncio.to_thread(_measured, stores, tenant, inputs, await _sql(stores, inputs))


def _settings(stores: Stores) -> Settings:
    engines = stores.engines
    return settings_of(stores.data, engines.postgres_dsn).changed(redis_url=SecretStr(engines.redis_url))


def _measured(stores: Stores, tenant: str, inputs: Inputs, sql: Cost) -> Called:
    shard = qe.EdgeShard.load(str(live_place(stores.data / "index") / "shard"), _one_thread())
    graph = pyoxigraph.Store.read_only(str(live_place(stores.data / "graph") / "store"))
    try:
        asked, least = inputs.asked, inputs.profile.min_similarity
        costs = {
            name: _cost([lambda one=one, call=call: call(shard, one, least) for one in asked])
            for name, call in {**_CALLS, **_by_words(TermRarity())}.items()
        }
        costs[SPARQL] = _cost([lambda one=one: _rows(graph, one.sparql) for one in asked if one.sparql])
        costs[SQL] = sql
        costs[VERSIONS] = cost_of_calls([lambda: _all_versions(shard)], clock=time.process_time)
        return Called(tenant=tenant, costs=costs, found=_shares(shard, asked), segments=shard.info().segments_count)
    finally:
        shard.close()


def _one_thread() -> qe.EdgeConfig:
    """As a worker loads it."""
    return qe.EdgeConfig(sparse_vectors=sparse_vectors(), max_search_threads=1)


def _cost(calls: Sequence[Callable[[], object]]) -> Cost:
    """After one round that does not count."""
    for call in calls:
        call()
    return cost_of_calls(calls, clock=time.process_time)


def _by_words(rarity: TermRarity) -> Mapping[str, Call]:
    """Searches by words that know from the round that does not count how rare these are."""

    def keywords(shard: qe.EdgeShard, one: Asked, least: float) -> object:
        where, tenant = scope_filter(one.scope), one.scope.tenant
        searches = [Search(one.terms, name, where, one.limit, tenant=tenant) for name in _USING]
        return shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, searches, rarity)))

    def entities(shard: qe.EdgeShard, one: Asked, least: float) -> object:
        where, tenant = scope_filter(Scope(tenant=one.scope.tenant)), one.scope.tenant
        search = Search(one.entity_terms, "entity", where, 8, tenant=tenant, payload=["label", "aliases"])
        return shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, [search], rarity)))

    return {KEYWORDS: keywords, ENTITIES: entities}


def _dense(shard: qe.EdgeShard, one: Asked, least: float) -> object:
    search = Search(one.vector, "dense", scope_filter(one.scope), one.limit, min_score=least, among_all=True)
    return shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, [search], TermRarity())))


def _late(shard: qe.EdgeShard, one: Asked, least: float) -> object:
    search = Search(one.tokens, TOKENS, Filter(must=[Keys(list(one.pool))]), len(one.pool))
    return shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, [search], TermRarity())))


def _speakers(one: Asked, speakers: Sequence[str] = ()) -> qe.Filter:
    return edge_filter(scope_filter(replace(speaker_scope(one.scope), speakers=tuple(speakers))))


_CALLS: Mapping[str, Call] = {
    DENSE: _dense,
    EXACT: lambda shard, one, least: _nearest(shard, one, exact=True),
    LATE: _late,
    FETCH: lambda shard, one, least: shard.retrieve(list(one.pool), True, False),
    SPEAKERS: lambda shard, one, least: shard.facet(qe.FacetRequest("speaker", 1000, False, _speakers(one))),
    ONE_SPEAKER: lambda shard, one, least: shard.scroll(qe.ScrollRequest(filter=_speakers(one, ["Ana"]), limit=1)),
    IN_ORDER: lambda shard, one, least: shard.scroll(
        qe.ScrollRequest(
            filter=edge_filter(scope_filter(one.scope)),
            limit=_CANDIDATES,
            with_payload=["ts", "session"],
            order_by=qe.OrderBy("ts", qe.Direction.Desc),
        )
    ),
}


def _all_versions(shard: qe.EdgeShard) -> None:
    after: qe.PointId | None = None
    while True:
        _, after = shard.scroll(qe.ScrollRequest(offset=after, limit=500, with_payload=["version"]))
        if after is None:
            return


def _nearest(shard: qe.EdgeShard, one: Asked, *, exact: bool) -> list[Any]:
    """The keys of a recall's candidates, best first."""
    request = qe.QueryRequest(
        query=qe.Query.Nearest(one.vector, using="dense"),
        limit=_CANDIDATES,
        filter=edge_filter(scope_filter(one.scope)),
        params=qe.SearchParams(exact=exact),
    )
    return [point.id for point in shard.query(request)]


def _shares(shard: qe.EdgeShard, asked: Sequence[Asked]) -> dict[int, float]:
    """The mean share of the exact first 10 and 100 that are among as many first ones of the usual search."""
    pairs = [(_nearest(shard, one, exact=True), _nearest(shard, one, exact=False)) for one in asked]
    return {depth: sum(_share(*pair, depth) for pair in pairs) / len(pairs) for depth in (10, _CANDIDATES)}


def _share(exact: Sequence[Any], usual: Sequence[Any], depth: int) -> float:
    return len({*exact[:depth]} & {*usual[:depth]}) / len(exact[:depth])


def _rows(graph: pyoxigraph.Store, query: str | None) -> object:
    assert query is not None
    found = graph.query(query)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    return [solution["memory"] for solution in found]


async def _sql(stores: Stores, inputs: Inputs) -> Cost:
    connection = await open_connection(stores.engines.postgres_dsn, name="bench", statement_timeout_ms=30_000)
    taken_s: list[float] = []
    try:
        for one in (*inputs.asked, *inputs.asked):
            statement, values = one.sql
            began = time.perf_counter()
            await connection.fetch(statement, *values)
            taken_s.append(time.perf_counter() - began)
    finally:
        await connection.close()
    # Of the wall, since the work is Postgres's: the first round warms up.
    half = taken_s[len(inputs.asked) :]
    return cost(half, cpu_s=sum(half))
