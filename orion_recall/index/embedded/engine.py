"""Calls of Qdrant Edge on the live shard: reads in the caller's thread, writes in one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import qdrant_edge as qe

from orion_recall.index.embedded.points import edge_filter, edge_requests
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.engine_threads import EngineThreads, InThisThread
from orion_recall.index.points import DENSE_VECTORS, IndexPoint
from orion_recall.index.requests import Filter, Patience, Record, Scored, Search


class EdgeEngine:
    """The live shard by way of `threads`. Searches run during writes.

    The shard is asked for at every call: an optimised copy may replace the live one at every await.
    """

    def __init__(self, live: LiveShard, threads: EngineThreads | InThisThread) -> None:
        self._live, self.threads = live, threads

    async def search(self, requests: Sequence[Search], patience: Patience = "full") -> Sequence[Sequence[Scored]]:
        shard, rarity = self._live.checked(), self._live.rarity
        if any(one.using in DENSE_VECTORS for one in requests):
            self._live.refuse_another_model()

        def found() -> Sequence[Sequence[Scored]]:
            tenants = self._live.tenants()
            points = shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, requests, rarity, tenants)))
            if tenants is not None and self._live.tenants() != tenants:  # another tenant's came while it searched
                points = shard.query_batch(qe.QueryBatchRequest(edge_requests(shard, requests, rarity)))
            return points

        return await self.threads.run(found)

    async def retrieve(
        self,
        keys: Sequence[int],
        payload: bool | Sequence[str],
        vectors: Sequence[str] = (),
        patience: Patience = "full",
    ) -> Sequence[Record]:
        shard = self._live.checked()
        with_payload = payload if isinstance(payload, bool) else list(payload)
        return await self.threads.run(lambda: shard.retrieve(list(keys), with_payload, list(vectors) or False))

    async def scroll(
        self,
        where: Filter,
        limit: int,
        payload: Sequence[str] = (),
        *,
        offset: Any = None,
        newest_first: bool | None = None,
        patience: Patience = "full",
    ) -> tuple[Sequence[Record], Any]:
        shard, order = self._live.checked(), None
        if newest_first is not None:
            order = qe.OrderBy("ts", qe.Direction.Desc if newest_first else qe.Direction.Asc)
        request = qe.ScrollRequest(
            filter=edge_filter(where),
            limit=limit,
            offset=offset,
            with_payload=list(payload) or False,
            with_vector=False,
            order_by=order,
        )
        return await self.threads.run(lambda: shard.scroll(request))

    async def speakers(self, where: Filter) -> frozenset[str]:
        """At most 1000 of each segment.

        Not exact: the names are the same, and how many memories each has is not counted again (five to twenty times
        the CPU).
        """
        shard, request = self._live.checked(), qe.FacetRequest("speaker", 1000, False, edge_filter(where))
        return await self.threads.run(lambda: frozenset(str(hit.value) for hit in shard.facet(request).hits))

    async def delete(self, keys: Sequence[int]) -> None:
        await self.threads.run(lambda: self._live.delete(keys))

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        await self.threads.run(lambda: self._live.upsert(points))
