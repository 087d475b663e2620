"""The index on a Qdrant server or cluster: the embedded one's points, in one collection for all workers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from orion_recall.errors import TransientSourceError
from orion_recall.index.caches import SpeakerCache
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.points import HeldName, HeldPoint
from orion_recall.index.qdrant.collection import QdrantCollection
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.index.reads import IndexReads, held_names, held_points, removal, write
from orion_recall.index.requests import scope_filter
from orion_recall.index.texts import in_parts
from orion_recall.index.write_batch import VectorPrefetch, build_write_batch, embedded, keys_of, name_keys_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Change, Scope

KNOWN_S = 5.0
"""How long an answer of the server is taken for what it still says, in seconds."""
MOST_TENANTS = 10_000


class QdrantIndex(IndexReads):
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
        self._collection = one = QdrantCollection(server, collection, embedder, sparse, has_record=has_record)
        super().__init__(one, embedder, sparse)
        self.open, self.close, self.expect, self.adopt, self.check = (
            one.open,
            one.close,
            one.expect,
            one.adopt,
            one.check,
        )
        self._server, self._requests = server, one.requests
        self._prefetch = VectorPrefetch(embedder)
        self._speakers = SpeakerCache(KNOWN_S)
        self._with_passages: dict[str, tuple[bool, float]] = {}

    @property
    def copy(self) -> str:
        """Where the collection is: all who share it give it the same name."""
        return f"{self._server.address}/{self._collection.name}"

    @property
    def position(self) -> int:
        return self._collection.metadata.position

    @property
    def database_identity(self) -> str | None:
        return self._collection.metadata.record or None

    async def has_passages(self, tenant: str) -> bool:
        """As everywhere; what others wrote is seen after a few seconds."""
        now = time.monotonic()
        known, until = self._with_passages.get(tenant, (False, 0.0))
        if now >= until:
            known = await super().has_passages(tenant)
            if len(self._with_passages) >= MOST_TENANTS:
                self._with_passages.clear()
            self._with_passages[tenant] = known, now + KNOWN_S
        return known

    async def without_tokens(self) -> str | None:
        await self.check()
        return self._collection.metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse))

    async def has_titles(self, tenant: str) -> bool:
        """Always true: whether there are any is not known here without asking for them."""
        return True

    async def speakers(self, scope: Scope) -> frozenset[str]:
        return await self._speakers.names(scope, lambda known: self._collection.speakers(scope_filter(known)))

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self.check()
        changes = (await in_parts(changes))[0]
        await embedded(changes, *await self._held_before(changes), self._prefetch)

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
        held, names = await self._held_before(changes)
        if not keep_vectors:
            held, names = {key: one._replace(dense=None) for key, one in held.items()}, {}
        await write(self._collection, await build_write_batch(changes, held, self._prefetch, self.sparse, names))
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
        self._speakers.note(changes)

    async def remove(self, keys: Sequence[int]) -> None:
        await self._collection.opened()
        await write(self._collection, removal(keys, await self._held(keys)))

    async def _held(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        return await held_points(self._collection, keys, with_tokens=bool(self._collection.metadata.tokens))

    async def _held_before(self, changes: Sequence[Change]) -> tuple[dict[int, HeldPoint], dict[int, HeldName]]:
        """What the collection holds of the changes' memories and of the entities they name."""
        # What is written has vectors of its tokens, as all that was written before.
        mine = IndexMetadata.of(self.embedder, self.sparse)
        self._prefetch.with_tokens = self._collection.metadata.without_tokens(mine) is None
        return await self._held(keys_of(changes)), await held_names(self._collection, name_keys_of(changes))
