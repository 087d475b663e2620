"""The index on a Qdrant server or cluster: the embedded one's points, in one collection for all workers.

A point without a tenant, which no search can see, is its metadata. A collection that is absent is made; one that
was lost is made again, and its position is 0; one that is not ours is refused and left as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from orion_recall.errors import ModelError, SourceError, TransientSourceError
from orion_recall.index.caches import SpeakerCache
from orion_recall.index.metadata import FORMAT, IndexMetadata, refuse_another
from orion_recall.index.points import TOKENS, HeldPoint, IndexPoint
from orion_recall.index.qdrant.points import QdrantRequests
from orion_recall.index.qdrant.server import WRITE_S, CollectionLost, QdrantServer
from orion_recall.index.reads import IndexReads, held_names, held_points, removal, write
from orion_recall.index.requests import Fields, Filter, Page, Patience, Record, Scored, Search, scope_filter
from orion_recall.index.texts import in_parts
from orion_recall.index.write_batch import Held, VectorPrefetch, build_write_batch, embedded, keys_of, name_keys_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.text.normal import number_of
from orion_recall.values import Change, Scope

if TYPE_CHECKING:
    from qdrant_client.http import models as qm

log = logging.getLogger("orion_recall.sources")

_METADATA_KEY = number_of("card\x1f", "index")
# Far below a server's limit of 32 MiB a request, with memories as long as they may be.
_AT_ONCE = 50
_COUNTS_BY_TENANT = (1, 19)
_PAGE = 1000
_ADVICE = (
    "give ORION_QDRANT_COLLECTION another name, or delete the collection if nobody else uses it, and one will be "
    "made and filled from this record"
)
KNOWN_S = 5.0
"""How long an answer of the server is taken for what it still says, in seconds."""
MOST_TENANTS = 10_000


class QdrantIndex(IndexReads):
    """One collection by its name. Nothing is sent before `open` or the first search.

    `has_record`: a record exists; until `expect` gives its identity only an empty collection is read.
    """

    shared = True

    def __init__(
        self, server: QdrantServer, name: str, embedder: Embedder, sparse: SparseEncoder, *, has_record: bool
    ) -> None:
        super().__init__(self, embedder, sparse)
        self.server, self.name, self.client, self._requests = server, name, server.client, QdrantRequests()
        # Empty until the collection has been seen: the server, or the one that embeds, may be away at the start.
        self.metadata = IndexMetadata(format=FORMAT, model="", dimension=0, weights_sha256="", position=0)
        self._has_record = has_record
        self._expected: str | None = None
        self._opening = asyncio.Lock()
        self._is_open = self._is_version_known = False
        self._prefetch = VectorPrefetch(embedder)
        self._speakers = SpeakerCache(KNOWN_S)
        self._with_passages: dict[str, tuple[bool, float]] = {}

    @property
    def copy(self) -> str:
        """Where the collection is: all who share it give it the same name."""
        return f"{self.server.address}/{self.name}"

    @property
    def position(self) -> int:
        return self.metadata.position

    @property
    def database_identity(self) -> str | None:
        return self.metadata.record or None

    async def open(self) -> None:
        """Make the collection, or check it and read its position: fully at first, then by its metadata alone.

        TransientSourceError when the server is away; SourceError when the collection is another's, with what to do.
        """
        async with self._opening:
            try:
                metadata = None
                if self._is_open:
                    with contextlib.suppress(CollectionLost):
                        metadata = await self._read_metadata()
                if metadata is None:
                    metadata = await self._made_or_checked()
            except ModelError as error:
                self._is_open = False
                raise TransientSourceError(f"the index waits for the embedding model: {error}") from error
            except SourceError:
                self._is_open = False
                raise
            self.metadata, self._is_open = metadata, True

    async def close(self) -> None:
        self._is_open = False
        await self.server.close()

    def expect(self, identity: str) -> None:
        if identity != self._expected:
            self._expected, self._is_open = identity, False

    async def adopt(self) -> None:
        await self._opened()
        if self._expected is not None and not self.metadata.record:
            await self._write_metadata(replace(self.metadata, record=self._expected))

    async def check(self) -> None:
        await self._opened()
        if not self._has_record or not (self.metadata.position or self.metadata.record):
            return
        if self._expected is None or not self.metadata.record:
            self._is_open = False
            whose = (
                "this record's database identity is not known"
                if self._expected is None
                else "it has no database identity"
            )
            raise TransientSourceError(
                f"{self._what} is not read before it is seen to be of this record: {whose} yet"
            )

    async def _ask(self, call: Any, timeout_s: float | None = None) -> Any:
        """The server's answer; a collection that was lost is created again by the next call."""
        try:
            return await self.server.ask(call, timeout_s)
        except CollectionLost:
            self._is_open = False
            raise

    async def search(self, requests: Sequence[Search], patience: Patience = "full") -> Sequence[Sequence[Scored]]:
        queries = [self._requests.query(one) for one in requests]
        found = await self._read(lambda: self.client.query_batch_points(self.name, queries), patience)
        return [one.points for one in found]

    async def retrieve(
        self, keys: Sequence[int], payload: Fields, vectors: Sequence[str] = (), patience: Patience = "full"
    ) -> Sequence[Record]:
        records: list[Record] = []
        # With vectors it is for a write, from a majority of replicas: one that lags would give an earlier version.
        size = (_AT_ONCE if payload is True else _PAGE) if vectors else max(1, len(keys))
        retrieve = partial(
            self.client.retrieve,
            self.name,
            with_payload=payload if isinstance(payload, bool) else list(payload),
            with_vectors=list(vectors) or False,
            consistency=self._requests.majority if vectors else None,
        )
        for start in range(0, len(keys), size):
            records += await self._read(partial(retrieve, list(keys[start : start + size])), patience)
        return records

    async def scroll(self, page: Page, patience: Patience = "full") -> tuple[Sequence[Record], Any]:
        newest_first = page.newest_first
        order = None if newest_first is None else self._requests.by_time(newest_first=newest_first)
        scroll = partial(
            self.client.scroll,
            self.name,
            scroll_filter=self._requests.filter(page.where),
            limit=page.limit,
            offset=page.offset,
            with_payload=list(page.payload) or False,
            order_by=order,
            consistency=self._requests.majority if patience == "full" else None,
        )
        return await self._read(scroll, patience)

    async def _speakers_in(self, where: Filter) -> frozenset[str]:
        within = self._requests.filter(where)
        facet: qm.FacetResponse = await self._read(
            lambda: self.client.facet(self.name, "speaker", facet_filter=within, limit=1000, exact=True), "aside"
        )
        return frozenset(str(hit.value) for hit in facet.hits)

    async def delete(self, keys: Sequence[int]) -> None:
        points = self._requests.models.PointIdsList(points=list(keys))
        await self._ask(self.client.delete(self.name, points, wait=True), WRITE_S)

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        for start in range(0, len(points), _AT_ONCE):
            await self._upsert(points[start : start + _AT_ONCE])

    async def _upsert(self, points: Sequence[IndexPoint]) -> None:
        await self._ask(self.client.upsert(self.name, self._requests.points(points), wait=True), WRITE_S)

    async def _read(self, call: Callable[[], Any], patience: Patience) -> Any:
        async def checked() -> Any:
            await self.check()
            return await self._ask(call())

        if patience == "full":
            return await checked()
        return await self.server.ask_if_well(checked, self.server.aside_s if patience == "aside" else None)

    async def _read_metadata(self) -> IndexMetadata | None:
        """The metadata; None when there is none. SourceError when it is another model's."""
        # From a majority of replicas: one that lags would give an earlier position.
        majority = self._requests.majority
        records: list[qm.Record] = await self._ask(
            self.client.retrieve(self.name, [_METADATA_KEY], with_payload=True, consistency=majority)
        )
        if not records:
            return None
        try:
            metadata = IndexMetadata.read(records[0].payload or {})
        except (TypeError, ValueError) as error:
            raise self._not_ours("holds a metadata that cannot be read:") from error
        if (misfit := metadata.misfit(IndexMetadata.of(self.embedder, self.sparse))) is not None:
            raise self._not_ours(misfit)
        refuse_another(self._what, metadata.record or None, self._expected, advice=_ADVICE)
        return metadata

    async def _write_metadata(self, metadata: IndexMetadata) -> None:
        await self._upsert([IndexPoint(_METADATA_KEY, None, {}, asdict(metadata))])
        self.metadata = metadata

    async def _opened(self) -> None:
        """As `open`, unless that has been done."""
        if not self._is_open:
            await self.open()

    async def _made_or_checked(self) -> IndexMetadata:
        ask, client, name = self.server.ask, self.client, self.name
        if not await ask(client.collection_exists(name)):
            await self._make()
        await self._warn_of_old_server()
        info = await ask(client.get_collection(name))
        if (misfit := self._requests.misfit(info, self.embedder.dimension)) is not None:
            raise self._not_ours(f"{misfit}:")
        metadata = await self._read_metadata()
        if metadata is None and info.points_count:
            raise self._not_ours("holds points that orion-recall did not write:")
        # Before there is data: a server builds the index of a field as points come in.
        for field, schema in self._requests.payload_indexes().items():
            if field not in info.payload_schema:
                await ask(client.create_payload_index(name, field, field_schema=schema), WRITE_S)
        if metadata is None:
            mine = IndexMetadata.of(self.embedder, self.sparse)
            # One that was made by others may have no room for them.
            tokens = mine.tokens if TOKENS in dict(info.config.params.vectors or {}) else ""
            metadata = replace(mine, made=uuid4().hex, record=self._expected or "", tokens=tokens)
            await self._write_metadata(metadata)
        return metadata

    async def _warn_of_old_server(self) -> None:
        """Says once that a server counts words over all tenants; one that does not tell its version is let be."""
        if self._is_version_known:
            return
        self._is_version_known = True
        with contextlib.suppress(SourceError, ValueError):
            told = str((await self.server.ask(self.client.info())).version)
            if tuple(map(int, told.lstrip("v").split(".")[:2])) < _COUNTS_BY_TENANT:
                log.warning(
                    "the Qdrant server at %s has version %s: before 1.19 it counts how rare a word is over the "
                    "memories of all tenants, so that those of one change the scores of another: update it",
                    *(self.server.address, told),
                )

    async def _make(self) -> None:
        log.info("making %s", self._what)
        width = self.embedder.token_width if isinstance(self.embedder, TokenVectors) else 0
        try:
            vectors = self._requests.vectors(self.embedder.dimension, width)
            sparse = self._requests.sparse_vectors()
            create = self.client.create_collection(self.name, vectors_config=vectors, sparse_vectors_config=sparse)
            await self.server.ask(create, WRITE_S)
        except SourceError:
            # Another worker that starts now may have been quicker.
            if not await self.server.ask(self.client.collection_exists(self.name)):
                raise

    @property
    def _what(self) -> str:
        return f"the collection {self.name} at {self.server.address}"

    def _not_ours(self, reason: str) -> SourceError:
        return SourceError(
            f"{self._what} {reason} give ORION_QDRANT_COLLECTION another name, or delete the collection, and one "
            "will be made and filled from the record"
        )

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
        return self.metadata.without_tokens(IndexMetadata.of(self.embedder, self.sparse))

    async def has_titles(self, tenant: str) -> bool:
        """Always true: whether there are any is not known here without asking for them."""
        return True

    async def speakers(self, scope: Scope) -> frozenset[str]:
        return await self._speakers.names(scope, lambda known: self._speakers_in(scope_filter(known)))

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self.check()
        changes = (await in_parts(changes))[0]
        await embedded(changes, await self._held_before(changes), self._prefetch)

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
        before = self.metadata
        held = await self._held_before(changes)
        if not keep_vectors:
            held = Held({key: one._replace(dense=None) for key, one in held.points.items()})
        await write(self, await build_write_batch(changes, held, self._prefetch, self.sparse))
        self._with_passages.clear()
        # First the data, then the position: a crash between the two writes it again.
        if (now := await self._read_metadata()) != before:
            self._is_open = False  # checked again before the next use
            if now is not None and now.made == before.made and now.position > before.position:
                # Another process has written, and this write may be older: all from here on is applied again.
                await self._write_metadata(before)
            raise TransientSourceError(
                f"the collection {self.copy} was created again or written by another process: it is tried again"
            )
        await self._write_metadata(
            before.at(changes[-1].position).written_by(IndexMetadata.of(self.embedder, self.sparse))
        )
        self._speakers.note(changes)

    async def remove(self, keys: Sequence[int]) -> None:
        await self._opened()
        await write(self, removal(keys, await self._held(keys)))

    async def _held(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        return await held_points(self, keys, with_tokens=bool(self.metadata.tokens))

    async def _held_before(self, changes: Sequence[Change]) -> Held:
        """What the collection holds of the changes' memories and of the entities they name."""
        # What is written has vectors of its tokens, as all that was written before.
        mine = IndexMetadata.of(self.embedder, self.sparse)
        self._prefetch.with_tokens = self.metadata.without_tokens(mine) is None
        return Held(await self._held(keys_of(changes)), await held_names(self, name_keys_of(changes)))
