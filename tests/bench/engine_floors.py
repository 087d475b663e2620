"""The lower bounds (floors) of the engines: each is called as directly as possible, on a copy of the data.

No event loop where the engine needs none, no threads, no retries, no translation of results. What each is asked is
recorded beforehand from the product's own sources, one set for each question; what is timed is the call alone.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyoxigraph
import qdrant_edge as qe

from orion_recall.bus.envelope import encode_request
from orion_recall.contracts import QUERY_KIND, RecallQueryV1
from orion_recall.graph.vocabulary import Row
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.points import TermRarity, edge_requests, indexed_fields
from orion_recall.index.embedded.shard import sparse_vectors
from orion_recall.index.embedded.token_column import TokenColumn
from orion_recall.index.requests import Search, scope_filter
from orion_recall.interfaces import OwnGraph
from orion_recall.models.embedder import Encoder
from orion_recall.models.onnx_encoder import prepared
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.postgres.pool import close_connection, open_connection
from orion_recall.profile.model import CANDIDATES, Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.candidates.fuse import Fusing, fuse
from orion_recall.recall.search.all_sources import search_all
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.understand.question import understand
from orion_recall.serving.backends import Opened, open_sources, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.graph import RdfSource
from orion_recall.sources.timeline import TimelineSource, timeline_query
from orion_recall.values import Scope, SearchRequest, SourceName
from tests.bench.measure import Cost, cost, cost_of_calls

BUS, BUS_TOGETHER = "bus, one request and its reply", "bus, 32 at once"
EMBEDDING, EMBEDDING_BATCH = "embedding, one query", "embedding, in batches of 8"
DENSE, SPARSE, ENTITIES = "dense search", "keywords (text, context)", "names of entities"
FETCH, LATE = "fetch of the pool", "late interaction with the pool"
SPARQL, SQL = "graph neighbourhood", "timeline in Postgres"
WALL_SUM = (BUS, EMBEDDING, DENSE, SPARSE, SPARQL, SQL)
CPU_SUM = (BUS_TOGETHER, EMBEDDING_BATCH, DENSE, SPARSE, ENTITIES, SPARQL, SQL, FETCH, LATE)

_BATCH, _TIMEOUT_S, _STATEMENT_TIMEOUT_MS = 8, 60.0, 30_000
_USING = ("text", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one question asks of every engine. `sparql` is None where no entity is named."""

    envelope: bytes
    text: str
    scope: Scope
    limit: int
    least: float
    vector: list[float]
    tokens: Tokens
    terms: SparseTerms
    entity_terms: SparseTerms
    max_entities: int
    sparql: str | None
    sql: tuple[str, list[Any]]
    pool: list[int]


class _RecordingGraph:
    """A graph that records its last query."""

    kind = "graph"
    damage: str | None = None
    stalled: str | None = None
    writes = None

    def __init__(self, graph: OwnGraph) -> None:
        self._graph = graph
        self.heard: str | None = None

    async def select(self, query: str) -> Sequence[Row]:
        self.heard = query
        return await self._graph.select(query)

    async def check(self) -> None:
        await self._graph.check()


async def recorded(
    settings: Settings, profile_name: str, queries: Sequence[RecallQueryV1], now: float
) -> Sequence[Asked]:
    """What the queries ask on the data of the settings' folder, which nobody else may have open."""
    profile = loaded_profiles(settings.profiles_dir)[profile_name].profile
    async with open_sources(settings) as opened:
        return [await _asked(settings, opened, profile, query, now) for query in queries]


async def _asked(settings: Settings, opened: Opened, profile: Profile, query: RecallQueryV1, now: float) -> Asked:
    assert opened.index is not None and opened.graph is not None, opened.broken
    assert isinstance(opened.embedder, TokenVectors)
    scope = scope_of(query, profile, settings.default_tenant)
    speakers = await opened.index.speakers(scope)
    question = understand(query, profile, now=now, speakers=speakers).question
    request = SearchRequest(
        question=question,
        scope=scope,
        limit=CANDIDATES[profile.budget],
        min_score=profile.min_similarity,
        window_minutes=profile.sql_since_minutes,
        hops=profile.graph.hops,
        max_entities=profile.graph.max_entities,
        max_statements=profile.graph.max_statements,
    )
    listener = _RecordingGraph(opened.graph)
    sources = dict(opened.sources.by_name) | {"rdf": RdfSource(listener, opened.index)}
    reports = await search_all(
        {name: sources[name] for name in profile.sources_on},
        dict.fromkeys(profile.sources_on, request),
        opened.sources.breakers,
        timeout_s=_TIMEOUT_S,
        retries=0,
    )
    silent = {report.source: report.error for report in reports if report.status in ("failed", "late")}
    assert not silent, silent
    candidates = fuse(
        reports,
        Fusing(
            method=profile.fusion.method,
            k=profile.fusion.k,
            weights=cast("dict[SourceName, float]", profile.fusion.weights.model_dump()),
        ),
        limit=max(profile.rank_pool, profile.max_total_items),
    )
    assert settings.dsn is not None
    timeline = TimelineSource(settings.dsn, timeline_table(settings))
    shape = await timeline.shape()
    await timeline.close()
    sparse = SparseEncoder()
    return Asked(
        envelope=encode_request(
            QUERY_KIND,
            json.loads(query.model_dump_json(exclude_unset=True)),
            correlation_id="0" * 32,
            source={"name": "bench"},
            reply_to="recall.reply.v1:" + "0" * 32,
            ttl_ms=10_000,
        ),
        text=prepared(question.dense_text),
        scope=scope,
        limit=request.limit,
        least=profile.min_similarity,
        vector=(await opened.embedder.embed_query(question.dense_text)).tolist(),
        tokens=await opened.embedder.query_tokens(question.dense_text),
        terms=sparse.encode_query(question.keyword_text),
        entity_terms=sparse.encode_query(question.text),
        max_entities=profile.graph.max_entities,
        sparql=listener.heard,
        sql=timeline_query(shape, request),
        pool=[candidate.key for candidate in candidates],
    )


class EngineFloors:
    """Index, graph and a held connection, with everything that the questions ask of them."""

    def __init__(self, folder: Path, dsn: str, asked: Sequence[Asked]) -> None:
        self._dsn, self._asked = dsn, asked
        # An optimised copy may have taken the index's place, or a rebuilt one that of either. As a worker loads it.
        config = qe.EdgeConfig(sparse_vectors=sparse_vectors(), max_search_threads=1)
        index = live_place(folder / "index")
        self._shard = qe.EdgeShard.load(str(index / "shard"), config)
        self._tokens = TokenColumn(index / "tokens")
        self._graph = pyoxigraph.Store.read_only(str(live_place(folder / "graph") / "store"))
        self._rarity = TermRarity()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, folder: Path, dsn: str, asked: Sequence[Asked]) -> AsyncGenerator[EngineFloors]:
        """On the folder's index and graph, warm; nobody else may have them open."""
        floors = cls(folder, dsn, asked)
        try:
            await floors.measure()
            yield floors
        finally:
            floors._tokens.close()
            floors._shard.close()

    async def measure(self, encoder: Encoder | None = None) -> dict[str, Cost]:
        """What one call of each costs. CPU is of the whole process, so that an engine's own threads count."""
        calls: dict[str, Callable[[Asked], object]] = {
            DENSE: self._dense,
            SPARSE: self._sparse,
            ENTITIES: self._entities,
            FETCH: lambda one: self._shard.retrieve(list(one.pool), True, False),
            LATE: lambda one: self._tokens.max_sim(one.tokens, one.pool),
        }
        costs = {name: _cost([lambda one=one, of=of: of(one) for one in self._asked]) for name, of in calls.items()}
        named = [one.sparql for one in self._asked if one.sparql]
        if named:
            costs[SPARQL] = _cost([lambda query=query: self._memories(query) for query in named])
        if encoder is not None:
            costs |= {EMBEDDING: _embedding(encoder, self._asked, 1)}
            costs |= {EMBEDDING_BATCH: _embedding(encoder, self._asked, _BATCH)}
        return costs | {SQL: await self._sql()}

    def _search(self, *searches: Search) -> object:
        asked = edge_requests(self._shard, searches, self._rarity, indexed_fields(self._shard))
        return self._shard.query_batch(qe.QueryBatchRequest(asked))

    def _dense(self, one: Asked) -> object:
        where = scope_filter(one.scope)
        return self._search(Search(one.vector, "dense", where, one.limit, min_score=one.least, among_all=True))

    def _sparse(self, one: Asked) -> object:
        where, tenant = scope_filter(one.scope), one.scope.tenant
        return self._search(*[Search(one.terms, name, where, one.limit, tenant=tenant) for name in _USING])

    def _entities(self, one: Asked) -> object:
        tenant = one.scope.tenant
        where, payload = scope_filter(Scope(tenant=tenant)), ("label", "aliases")
        return self._search(
            Search(one.entity_terms, "entity", where, one.max_entities, tenant=tenant, payload=payload)
        )

    def _memories(self, query: str) -> object:
        found = self._graph.query(query)
        assert isinstance(found, pyoxigraph.QuerySolutions)
        return [solution["memory"] for solution in found]

    async def _sql(self) -> Cost:
        connection = await open_connection(self._dsn, name="bench", statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
        taken_s: list[float] = []
        try:
            for one in self._asked[:1]:  # the connection warms up
                await connection.fetch(one.sql[0], *one.sql[1])
            cpu_began = time.process_time()
            for one in self._asked:
                began = time.perf_counter()
                await connection.fetch(one.sql[0], *one.sql[1])
                taken_s.append(time.perf_counter() - began)
            cpu_s = time.process_time() - cpu_began
        finally:
            await close_connection(connection)
        return cost(taken_s, cpu_s=cpu_s)


def _cost(calls: Sequence[Callable[[], object]], per_call: int = 1) -> Cost:
    return cost_of_calls(calls, clock=time.process_time, per_call=per_call)


def _embedding(encoder: Encoder, asked: Sequence[Asked], batch: int) -> Cost:
    texts = [one.text for one in asked]
    batches = [texts[start : start + batch] for start in range(0, len(texts) - len(texts) % batch, batch)]
    return _cost([lambda some=some: encoder.encode(some) for some in batches], batch)
