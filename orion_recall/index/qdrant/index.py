"""The index on a Qdrant server or cluster: the embedded one's points, in one collection for all workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.index.caches import ByScope, speaker_scope
from orion_recall.index.metadata import IndexMetadata
from orion_recall.index.passages import in_parts
from orion_recall.index.points import HeldPoint
from orion_recall.index.qdrant.collection import QdrantCollection
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.index.reads import IndexReads, held_names, held_points, removal, write
from orion_recall.index.requests import scope_filter
from orion_recall.index.write_batch import (
    VectorPrefetch,
    build_write_batch,
    keys_of,
    name_keys_of,
    names_to_embed,
    texts_to_embed,
)
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Change, Memory, Scope

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
        self._collection = QdrantCollection(server, collection, embedder, sparse, has_record=has_record)
        super().__init__(self._collection, embedder, sparse)
        self._server, self._requests = server, self._collection.requests
        self._prefetch = VectorPrefetch(embedder)
        self._speakers = KnownSpeakers()
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
        known = speaker_scope(scope)
        return await self._speakers.names(known, lambda: self._collection.speakers(scope_filter(known)))

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self.check()
        changes = (await in_parts(changes))[0]
        held, names = await self._held(keys_of(changes)), await held_names(self._collection, name_keys_of(changes))
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
        held = await self._held(keys_of(changes))
        names = await held_names(self._collection, name_keys_of(changes)) if keep_vectors else {}
        if not keep_vectors:
            held = {key: one._replace(dense=None) for key, one in held.items()}
        with_tokens = self._writes_tokens()
        step = await build_write_batch(
            changes, held, self._prefetch, self.sparse, names=names, with_tokens=with_tokens
        )
        await write(self._collection, step)
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

    async def remove(self, keys: Sequence[int]) -> None:
        await self._collection.opened()
        await write(self._collection, removal(keys, await self._held(keys)))

    async def _held(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        with_tokens = bool(self._collection.metadata.tokens)
        return await held_points(self._collection, keys, with_tokens=with_tokens)

    def _writes_tokens(self) -> bool:
        """Whether what is written has vectors of its tokens, as all that was written before."""
        self._prefetch.with_tokens = (
            self._collection.metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse)) is None
        )
        return self._prefetch.with_tokens
