"""The lower bounds (floors) of the engines: each is called as directly as possible, on a copy of the data.

No event loop where the engine needs none, no threads, no retries, no translation of results. The requests are
built beforehand; what is timed is the engine's call alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pyoxigraph
import qdrant_edge as qe

from orion_recall.index.embedded.folders import live_place
from orion_recall.index.embedded.points import TermRarity, edge_filter, edge_requests
from orion_recall.index.points import TOKENS
from orion_recall.index.requests import Filter, Keys, Search, scope_filter
from orion_recall.models.onnx_encoder import Encoder, prepared
from orion_recall.postgres.pool import Connection, open_connection
from orion_recall.values import Scope
from tests.bench.measure import Cost, cost, cost_of_calls
from tests.bench.recorded_inputs import Asked, Inputs

BUS, BUS_TOGETHER = "bus, one request and its reply", "bus, 32 at once"
EMBEDDING, EMBEDDING_BATCH = "embedding, one query", "embedding, in batches of 8"
DENSE, SPARSE, ENTITIES, FETCH = (
    "dense search",
    "sparse search (text, context)",
    "entity lookup",
    "fetch of the pool",
)
LATE = "late interaction with the pool"
SPARQL, SQL = "SPARQL neighbourhood", "SQL timeline"

_BATCH = 8
_STATEMENT_TIMEOUT_MS = 5000
Calls = Sequence[Callable[[], object]]


class EngineFloors:
    """The engines opened on a copy of the data, with everything that the questions ask of them."""

    def __init__(self, folder: Path, encoder: Encoder, postgres: Connection, inputs: Inputs) -> None:
        self._encoder, self._postgres, self._inputs = encoder, postgres, inputs
        # An optimised copy may have taken the index's place, or a rebuilt one that of either.
        self._shard = qe.EdgeShard.load(str(live_place(folder / "index") / "shard"))
        self._graph = pyoxigraph.Store(str(live_place(folder / "graph") / "store"))

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, folder: Path, encoder: Encoder, dsn: str, inputs: Inputs) -> AsyncGenerator[EngineFloors]:
        """On the folder's index and graph and one held connection, all warm."""
        postgres = await open_connection(dsn, name="bench", statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
        floors = cls(folder, encoder, postgres, inputs)
        try:
            await floors.measure()
            yield floors
        finally:
            await postgres.close()
            floors._shard.close()

    async def measure(self) -> dict[str, Cost]:
        """What one call of each costs. CPU is of the whole process, so that an engine's own threads count."""
        asked = self._inputs.asked
        clock = time.process_time
        costs = {
            EMBEDDING: cost_of_calls(self._embeddings(1), clock=clock),
            EMBEDDING_BATCH: cost_of_calls(self._embeddings(_BATCH), clock=clock, per_call=_BATCH),
            DENSE: cost_of_calls([self._dense(one) for one in asked], clock=clock),
            SPARSE: cost_of_calls([self._sparse(one) for one in asked], clock=clock),
            ENTITIES: cost_of_calls([self._entities(one) for one in asked], clock=clock),
            FETCH: cost_of_calls([self._fetch(one) for one in asked], clock=clock),
            LATE: cost_of_calls([self._late(one) for one in asked], clock=clock),
            SPARQL: cost_of_calls([self._sparql(one.sparql) for one in asked if one.sparql], clock=clock),
        }
        return costs | {SQL: await self._sql()}

    def _embeddings(self, batch: int) -> Calls:
        texts = [prepared(one.understanding.question.dense_text) for one in self._inputs.asked]
        whole = len(texts) - len(texts) % batch

        def call(some: list[str]) -> Callable[[], object]:
            return lambda: self._encoder.encode(some)

        return [call(texts[start : start + batch]) for start in range(0, whole, batch)]

    def _dense(self, asked: Asked) -> Callable[[], object]:
        request = qe.QueryRequest(
            query=qe.Query.Nearest(asked.vector, using="dense"),
            limit=asked.limit,
            filter=edge_filter(scope_filter(asked.scope)),
            score_threshold=self._inputs.profile.min_similarity,
        )
        return lambda: self._shard.query(request)

    def _sparse(self, asked: Asked) -> Callable[[], object]:
        vector = qe.SparseVector(list(asked.terms.indices), list(asked.terms.values))
        conditions = edge_filter(scope_filter(asked.scope))
        both = qe.QueryBatchRequest(
            [
                qe.QueryRequest(query=qe.Query.Nearest(vector, using=using), limit=asked.limit, filter=conditions)
                for using in ("text", "context")
            ]
        )
        return lambda: self._shard.query_batch(both)

    def _entities(self, asked: Asked) -> Callable[[], object]:
        vector = qe.SparseVector(list(asked.entity_terms.indices), list(asked.entity_terms.values))
        request = qe.QueryRequest(
            query=qe.Query.Nearest(vector, using="entity"),
            limit=self._inputs.profile.graph.max_entities,
            filter=edge_filter(scope_filter(Scope(tenant=asked.scope.tenant))),
            with_payload=["label"],
        )
        return lambda: self._shard.query(request)

    def _fetch(self, asked: Asked) -> Callable[[], object]:
        keys: list[qe.PointId] = list(asked.pool)
        return lambda: self._shard.retrieve(keys, True, False)

    def _late(self, asked: Asked) -> Callable[[], object]:
        search = Search(asked.tokens, TOKENS, Filter(must=[Keys(list(asked.pool))]), len(asked.pool))
        (request,) = edge_requests(self._shard, [search], TermRarity())
        return lambda: self._shard.query(request)

    def _sparql(self, query: str) -> Callable[[], object]:
        def call() -> object:
            found = self._graph.query(query)
            assert isinstance(found, pyoxigraph.QuerySolutions)
            return [solution["memory"] for solution in found]

        return call

    async def _sql(self) -> Cost:
        taken_s: list[float] = []
        cpu_began = time.process_time()
        for one in self._inputs.asked:
            statement, values = one.sql
            began = time.perf_counter()
            await self._postgres.fetch(statement, *values)
            taken_s.append(time.perf_counter() - began)
        return cost(taken_s, cpu_s=time.process_time() - cpu_began)
