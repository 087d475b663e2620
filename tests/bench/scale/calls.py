"""Each engine call of a recall, alone on the stores: its CPU, and how much of the exact answer it finds.

The engines are called in this thread, so that the CPU is theirs alone. Postgres's share is the wall time of its
answer, which counts on a quiet machine only.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyoxigraph
import qdrant_edge as qe
from pydantic import SecretStr

from orion_recall.index.embedded.document_frequencies import DocumentFrequencies
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.points import (
    dense_request,
    entity_request,
    in_time_order_request,
    max_sim_request,
    scope_filter,
    sparse_batch,
    speakers_request,
    spoken_request,
)
from orion_recall.index.embedded.shard import sparse_vectors
from orion_recall.index.embedded.writes import has_values, read_versions
from orion_recall.index.passages import OF
from orion_recall.index.speakers import speaker_scope
from orion_recall.postgres.pool import open_connection
from orion_recall.settings import Settings
from tests.bench.fill_child import settings_of
from tests.bench.measure import Cost, cost, cost_of_calls
from tests.bench.recorded_inputs import Asked, Inputs, take_inputs
from tests.bench.running_worker import queries_from
from tests.bench.scale.memories import LARGE, SMALL
from tests.bench.scale.stores import Stores

_QUESTIONS = 24
_CANDIDATES = 100
DENSE, EXACT = "dense search", "dense search, exact"
KEYWORDS, COUNTED_WORDS = "keywords (text, context)", "the same, the engine counts rare words (once)"
COUNTED_NAMES = "names of entities, the engine counts rare words (once)"
ENTITIES, LATE, FETCH = "names of entities", "late interaction", "fetch of the pool"
SPEAKERS, ONE_SPEAKER, IN_ORDER = "speakers in scope (once)", "one speaker (after a change)", "in time order"
FIELD, VERSIONS = "whether a field is in use (once between writes)", "versions of all (self check)"
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
            for name, call in {**_CALLS, **_kept_calls(DocumentFrequencies())}.items()
        }
        costs[SPARQL] = _cost([lambda one=one: _rows(graph, one.sparql) for one in asked if one.sparql])
        costs[SQL] = sql
        costs[FIELD] = _cost([lambda: has_values(shard, OF)] * 5)
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


def _kept_calls(frequencies: DocumentFrequencies) -> Mapping[str, Call]:
    """Searches by words that know from the round that does not count how rare these are."""

    def keywords(shard: qe.EdgeShard, one: Asked, least: float) -> object:
        with_idf = frequencies.weighted(shard, one.scope.tenant, one.terms, _USING)
        return shard.query_batch(sparse_batch(one.terms, one.scope, one.limit, _USING, with_idf))

    def entities(shard: qe.EdgeShard, one: Asked, least: float) -> object:
        with_idf = frequencies.weighted(shard, one.scope.tenant, one.entity_terms, ("entity",))
        return shard.query(entity_request(one.entity_terms, one.scope.tenant, 8, with_idf))

    return {KEYWORDS: keywords, ENTITIES: entities}


_CALLS: Mapping[str, Call] = {
    DENSE: lambda shard, one, least: shard.query(dense_request(shard, one.vector, one.scope, one.limit, least)),
    EXACT: lambda shard, one, least: _nearest(shard, one, exact=True),
    COUNTED_WORDS: lambda shard, one, least: shard.query_batch(
        sparse_batch(one.terms, one.scope, one.limit, _USING, None)
    ),
    COUNTED_NAMES: lambda shard, one, least: shard.query(
        entity_request(one.entity_terms, one.scope.tenant, 8, None)
    ),
    LATE: lambda shard, one, least: shard.query(max_sim_request(one.tokens, one.pool)),
    FETCH: lambda shard, one, least: shard.retrieve(list(one.pool), True, False),
    SPEAKERS: lambda shard, one, least: shard.facet(speakers_request(speaker_scope(one.scope))),
    ONE_SPEAKER: lambda shard, one, least: shard.scroll(spoken_request(speaker_scope(one.scope), "Ana")),
    IN_ORDER: lambda shard, one, least: shard.scroll(
        in_time_order_request(one.scope, _CANDIDATES, newest_first=True, without_sessions=())
    ),
}


def _all_versions(shard: qe.EdgeShard) -> None:
    after: qe.PointId | None = None
    while True:
        _, after = read_versions(shard, after)
        if after is None:
            return


def _nearest(shard: qe.EdgeShard, one: Asked, *, exact: bool) -> list[Any]:
    """The keys of a recall's candidates, best first."""
    request = qe.QueryRequest(
        query=qe.Query.Nearest(one.vector, using="dense"),
        limit=_CANDIDATES,
        filter=scope_filter(one.scope),
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
