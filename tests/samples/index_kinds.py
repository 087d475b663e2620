"""Empty indexes of every kind, over one place each: embedded and on a server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

from qdrant_client import AsyncQdrantClient

from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.interfaces import MemoryIndex
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Scope
from tests.samples.source_samples import OURS, TENANT, HashingEmbedder, key
from tests.stand_ins import quick_qdrant
from tests.stand_ins.qdrant_process import QdrantStandIn

KINDS = ("edge", "local", "stand-in", "server")
"""`local` is the client's own local mode, `stand-in` the same behind REST calls.

`server` is a real one where ORION_TEST_QDRANT_URL says so, with ORION_TEST_QDRANT_API_KEY, if it wants a key.
"""
Index = EdgeIndex | QdrantIndex


class IndexPlace:
    """Indexes of a kind over one and the same place, opened one after another."""

    def __init__(self, kind: str, folder: Path, sparse: SparseEncoder, stand_in: QdrantStandIn) -> None:
        self.kind, self.folder, self._sparse, self._stand_in = kind, folder, sparse, stand_in
        self._name = f"test-{uuid4().hex}"
        self._client: AsyncQdrantClient | None = None

    @contextlib.asynccontextmanager
    async def index(self, embedder: Embedder) -> AsyncGenerator[Index]:
        """The index by that embedder, open."""
        one = self._made(embedder)
        try:
            await one.open()
            yield one
        finally:
            if self.kind != "local":  # else the memories go with the client
                await one.close()

    def _made(self, embedder: Embedder) -> Index:
        if self.kind == "edge":
            return EdgeIndex(self.folder / "index", embedder, self._sparse)
        return QdrantIndex(self._server(), self._name, embedder, self._sparse, has_record=False)

    def _server(self) -> QdrantServer:
        if self.kind == "local":
            quick_qdrant.install()
            self._client = self._client or AsyncQdrantClient(":memory:")
            server = QdrantServer(self._client, "memory")
            server.aside_s, server.read_s = 10, 20
            return server
        if self.kind == "stand-in":
            return QdrantServer.at(self._stand_in.url)
        key = os.environ.get("ORION_TEST_QDRANT_API_KEY")
        return QdrantServer.at(os.environ["ORION_TEST_QDRANT_URL"], api_key=key)


async def snapshot(index: MemoryIndex) -> object:
    """What an index of the sample memories answers."""
    scope = Scope(tenant=TENANT)
    vector = (await HashingEmbedder().embed_query("harbour crane")).tolist()
    return (
        await index.search_dense(vector, scope, 10, -1.0),
        await index.search_sparse(SparseEncoder().encode_query("harbour crane"), scope, 10),
        await index.fetch([key(one.id) for one in OURS]),
        await index.find_entities("harbour crane fjord labs", TENANT, 10),
        index.position,
    )
