"""The index on a Qdrant server or cluster: the same points as the embedded one, in one collection for all workers.

A point without a tenant, which no search can see, is the collection's card: the embedding model that made it, the
outbox position it holds, and the record that it is of. A collection that is absent is made; one that was lost is
made again and filled, since its position is 0; one that is not ours is refused and left as it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from orion_recall.errors import ModelError, SourceError, TransientSourceError
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.sources.index_card import FORMAT, IndexCard
from orion_recall.sources.points import (
    TOKENS,
    HeldName,
    HeldPoint,
    IndexPoint,
    IndexStep,
    Name,
    held_name,
    held_point,
    index_step,
    keys_of,
    memory_view,
    name_keys_of,
    names_of,
    names_to_embed,
    texts_to_embed,
)
from orion_recall.sources.qdrant_points import QdrantWords, scored
from orion_recall.sources.qdrant_server import CollectionLost, QdrantServer
from orion_recall.sources.record_mark import refuse_another, refuse_without
from orion_recall.sources.vectors_ahead import VectorsAhead
from orion_recall.text import memory_key, number_of
from orion_recall.values import Change, Memory, MemoryView, Scope

if TYPE_CHECKING:
    from qdrant_client.http import models as qm

log = logging.getLogger("orion_recall.sources")

_CARD = number_of("card\x1f", "index")
# Far below a server's limit of 32 MiB a request, with memories as long as they may be.
_AT_ONCE = 50
_PAGE = 1000
_SPEAKERS_KNOWN_S = 5.0
_MOST_TENANTS = 10_000
_ADVICE = (
    "give ORION_QDRANT_COLLECTION another name, or delete the collection if nobody else uses it, and one will be "
    "made and filled from this record"
)


@dataclass(slots=True)
class _Speakers:
    names: frozenset[str]
    until: float


class QdrantIndex:
    """One collection. Nothing is sent before `open` or the first search.

    `has_record`: there is a record, whose mark `expect` will tell; until then only an empty collection is read.
    """

    kind = "index"
    shared = True

    def __init__(
        self,
        server: QdrantServer,
        collection: str,
        embedder: Embedder,
        sparse: SparseEncoder,
        *,
        has_record: bool = False,
    ) -> None:
        self._server, self.collection = server, collection
        self._has_record = has_record
        self._expected: str | None = None
        self.embedder, self.sparse = embedder, sparse
        self._ahead = VectorsAhead(embedder)
        self._client, self._words = server.client, QdrantWords()
        # Empty until the collection has been seen: the server, or the one that embeds, may be away at the start.
        self._card = IndexCard(format=FORMAT, model="", dimension=0, weights_sha256="", position=0)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._speakers: dict[str, _Speakers] = {}

    async def open(self) -> None:
        """Make the collection, or check it and read its position: thoroughly at first, then by its card alone.

        TransientSourceError when the server is away; SourceError when the collection is another's, with what to do.
        """
        async with self._opening:
            try:
                card = await self._seen_again() if self._is_open else None
                if card is None:
                    card = await self._made_or_checked()
            except ModelError as error:
                self._is_open = False
                raise TransientSourceError(f"the index waits for the embedding model: {error}") from error
            except SourceError:
                self._is_open = False
                raise
            self._card, self._is_open = card, True

    async def close(self) -> None:
        """Let the connections go."""
        self._is_open = False
        await self._server.close()

    @property
    def copy(self) -> str:
        """Where the collection is: all who share it give it the same name."""
        return f"{self._server.address}/{self.collection}"

    @property
    def position(self) -> int:
        """How far the collection had come in the outbox when it was last opened or written."""
        return self._card.position

    @property
    def record(self) -> str | None:
        """The mark of the record that the collection is of, as last seen."""
        return self._card.record or None

    def expect(self, record: str) -> None:
        """The mark of the record that the collection must be of."""
        if record != self._expected:
            self._expected, self._is_open = record, False

    async def adopt(self, newest: Memory | None) -> None:
        """Mark a collection that was made before there were marks, or before this record's was known."""
        await self._opened()
        if self._expected is None or self._card.record:
            return
        if newest is not None:
            key = memory_key(newest.tenant, newest.id)
            found: list[qm.Record] = await self._asked(
                self._client.retrieve(self.collection, [key], with_payload=True)
            )
            held = {cast("int", one.id): memory_view(one.payload or {}) for one in found}
            refuse_without(self._what, newest, held, advice=_ADVICE)
        await self._write_card(replace(self._card, record=self._expected))

    async def check(self) -> None:
        """SourceError when it is another record's, or holds something and it is not known whose."""
        await self._opened()
        if not self._has_record or not (self._card.position or self._card.record):
            return
        if self._expected is None or not self._card.record:
            self._is_open = False
            why = "this record's mark is not known yet" if self._expected is None else "it has no record's mark yet"
            raise TransientSourceError(f"{self._what} is not read before it is seen to be of this record: {why}")

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        """Nearest by cosine, best first; scores below `min_score` are left out."""
        (found,) = await self._query([self._words.dense_query(vector, scope, limit, min_score)])
        return scored(found)

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: a list for each of `using`, all of them in one request."""
        if not terms.indices:
            return [[] for _ in using]
        requests = [self._words.sparse_query(terms, scope, limit, using=name) for name in using]
        return [scored(found, above=0.0) for found in await self._query(requests)]

    async def without_tokens(self) -> str | None:
        """Why `max_sim` cannot be asked; None when it can."""
        await self.check()
        return self._card.without_tokens(IndexCard.of(self.embedder))

    async def max_sim(self, tokens: Tokens, keys: Sequence[int]) -> Mapping[int, float]:
        """For each memory of the keys the sum of the tokens' best dot products with its own tokens."""
        request = self._words.max_sim_query(tokens, keys)
        (found,) = await self._server.ask_if_well(lambda: self._query([request]))
        return dict(scored(found))

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """Entities whose names share words with the text: (label, score), best first."""
        points = await self._entities(text, tenant, limit)
        return [(str((point.payload or {})["label"]), point.score) for point in points]

    async def names_beside(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        """The entities whose names share words with the text, best first: each with all its names."""
        return [names_of(point.payload or {}) for point in await self._entities(text, tenant, limit)]

    async def _entities(self, text: str, tenant: str, limit: int) -> Sequence[qm.ScoredPoint]:
        terms = self.sparse.encode_query(text)
        if not terms.indices:
            return []
        scope, payload = Scope(tenant=tenant), ["label", "aliases"]
        request = self._words.sparse_query(terms, scope, limit, using="entity", payload=payload)
        (found,) = await self._server.aside(lambda: self._query([request]))
        return found.points

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """The entities whose names are nearest to the vector: (label, cosine), best first."""
        request = self._words.names_query(vector, tenant, limit)
        (found,) = await self._server.aside(lambda: self._query([request]))
        return [(str((point.payload or {})["label"]), point.score) for point in found.points]

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        """The memories in scope that are called one of the names, by key with all their names."""
        if not names:
            return {}
        records = await self._server.aside(lambda: self._titled(names, scope, limit))
        return {cast("int", record.id): (record.payload or {})["titles"] for record in records}

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key. Keys that are not there are left out."""
        if not keys:
            return {}
        records = await self._server.ask_if_well(lambda: self._records(keys))
        return {cast("int", record.id): memory_view(record.payload or {}) for record in records}

    async def speakers(self, tenant: str) -> frozenset[str]:
        """Who speaks in the tenant's memories, as written; what other workers wrote is seen after a few seconds."""
        now = time.monotonic()
        known = self._speakers.get(tenant)
        if known is not None and now < known.until:
            return known.names
        if known is not None:
            known.until = now + _SPEAKERS_KNOWN_S  # one asks, the others go on with what was known
        try:
            names = await self._server.aside(lambda: self._speaking(tenant))
        except SourceError:
            if known is None:
                raise
            return known.names
        if len(self._speakers) >= _MOST_TENANTS:
            self._speakers.clear()
        self._speakers[tenant] = _Speakers(names, now + _SPEAKERS_KNOWN_S)
        return names

    async def prepare(self, changes: Sequence[Change]) -> None:
        """Embed what is applied next. It is no write: what is embedded and then changes is embedded again."""
        await self.check()
        held, names = await self._held_of(keys_of(changes)), await self._names_of(name_keys_of(changes))
        await self._ahead.vectors(texts_to_embed(changes, held, with_tokens=self._writes_tokens()))
        await self._ahead.of_names(names_to_embed(changes, names))

    async def apply(self, changes: Sequence[Change]) -> None:
        """Put changes into the collection, in order, and move the position. Again is harmless.

        Only one of those who share the collection may do this at a time: see `memory.turns`.
        """
        await self._apply(changes, keep_vectors=True)

    async def apply_anew(self, changes: Sequence[Change]) -> None:
        """As `apply`; what has not changed is embedded again as well."""
        await self._apply(changes, keep_vectors=False)

    async def _apply(self, changes: Sequence[Change], *, keep_vectors: bool) -> None:
        if not changes:
            return
        await self.check()
        before = self._card
        held = await self._held_of(keys_of(changes))
        names = await self._names_of(name_keys_of(changes)) if keep_vectors else {}
        if not keep_vectors:
            held = {key: one._replace(dense=None) for key, one in held.items()}
        with_tokens = self._writes_tokens()
        step = await index_step(changes, held, self._ahead, self.sparse, names=names, with_tokens=with_tokens)
        await self._carry_out(step)
        # First the data, then the claim that it is there: a crash between the two writes it again.
        if (now := await self._read_card()) != before:
            self._is_open = False
            if now is not None and now.made == before.made and now.position > before.position:
                # Another has written, and what is written here may be older: from here on all is applied again.
                await self._write_card(before)
            raise TransientSourceError(f"the collection {self.copy} was made anew or written by another: once more")
        await self._write_card(before.at(changes[-1].position).written_by(IndexCard.of(self.embedder)))
        for change in changes:
            known = self._speakers.get(change.memory.tenant)
            if change.memory.is_live and change.memory.speaker and known is not None:
                known.names |= {change.memory.speaker}

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the collection holds, by key."""
        await self._opened()
        versions: dict[int, int] = {}
        offset: Any = None
        while True:
            call = self._client.scroll(
                self.collection,
                scroll_filter=self._words.memories,
                limit=_PAGE,
                offset=offset,
                with_payload=["version"],
            )
            records, offset = cast("tuple[list[qm.Record], Any]", await self._asked(call))
            for record in records:
                versions[cast("int", record.id)] = int((record.payload or {})["version"])
            if offset is None:
                return versions

    async def remove(self, keys: Sequence[int]) -> None:
        """Takes memories out that the record knows nothing of; the position stays."""
        await self._opened()
        held = await self._held_of(keys)
        forgotten = sorted({Name(one.tenant, name) for one in held.values() for name in one.names})
        await self._carry_out(IndexStep(points=[], gone=list(keys), forgotten=forgotten))

    def _writes_tokens(self) -> bool:
        """Whether what is written has vectors of its tokens, as all that was written before."""
        self._ahead.with_tokens = self._card.without_tokens(IndexCard.of(self.embedder)) is None
        return self._ahead.with_tokens

    async def _held_of(self, keys: Sequence[int]) -> dict[int, HeldPoint]:
        """What the collection holds of the memories, vectors included."""
        named = ["dense", TOKENS] if self._card.tokens else ["dense"]
        held: dict[int, HeldPoint] = {}
        for start in range(0, len(keys), _AT_ONCE):
            wanted = list(keys[start : start + _AT_ONCE])
            # Of most replicas: one that lags would tell of an earlier version.
            call = self._client.retrieve(
                self.collection,
                wanted,
                with_payload=True,
                with_vectors=named,
                consistency=self._words.majority,
            )
            for record in cast("list[qm.Record]", await self._asked(call)):
                vectors = cast("Mapping[str, Any] | None", record.vector) or {}
                held[cast("int", record.id)] = held_point(record.payload or {}, vectors)
        return held

    async def _names_of(self, keys: Sequence[int]) -> dict[int, HeldName]:
        """What the collection holds of the entities; those without a vector are left out."""
        names: dict[int, HeldName] = {}
        for start in range(0, len(keys), _PAGE):
            wanted = list(keys[start : start + _PAGE])
            call = self._client.retrieve(self.collection, wanted, with_payload=["label"], with_vectors=["name"])
            for record in cast("list[qm.Record]", await self._asked(call)):
                vectors = cast("Mapping[str, Any] | None", record.vector) or {}
                if (one := held_name(record.payload or {}, vectors)) is not None:
                    names[cast("int", record.id)] = one
        return names

    async def _carry_out(self, step: IndexStep) -> None:
        """Does the step. Names first: until the memories are written, a second try finds what they gave."""
        about = [*step.gone, *(point.key for point in step.points)]
        forgotten = [name.key for name in step.forgotten if not await self._is_given(name, about)]
        gone = [*forgotten, *step.gone]
        if gone:
            call = self._client.delete(self.collection, self._words.only(gone), wait=True)
            await self._asked(call, self._server.patience.write)
        for start in range(0, len(step.points), _AT_ONCE):
            await self._write(step.points[start : start + _AT_ONCE])

    async def _is_given(self, name: Name, besides: Sequence[int]) -> bool:
        """Whether a memory gives the name, other than those that are being written."""
        call = self._client.count(
            self.collection, count_filter=self._words.giving(name.tenant, name.folded, besides), exact=True
        )
        return cast("qm.CountResult", await self._asked(call)).count > 0

    async def _opened(self) -> None:
        if not self._is_open:
            await self.open()

    async def _asked(self, call: Any, timeout_s: float | None = None) -> Any:
        """What the server answers; a collection that is gone is made again by the next call."""
        try:
            return await self._server.ask(call, timeout_s)
        except CollectionLost:
            self._is_open = False
            raise

    async def _query(self, requests: Sequence[qm.QueryRequest]) -> list[qm.QueryResponse]:
        await self.check()
        return await self._asked(self._client.query_batch_points(self.collection, requests))

    async def _records(self, keys: Sequence[int]) -> list[qm.Record]:
        await self.check()
        return await self._asked(self._client.retrieve(self.collection, list(keys), with_payload=True))

    async def _titled(self, names: Sequence[str], scope: Scope, limit: int) -> list[qm.Record]:
        await self.check()
        call = self._client.scroll(
            self.collection,
            scroll_filter=self._words.scope_filter(scope, titles=names),
            limit=limit,
            with_payload=["titles"],
        )
        records, _ = cast("tuple[list[qm.Record], Any]", await self._asked(call))
        return records

    async def _speaking(self, tenant: str) -> frozenset[str]:
        await self.check()
        facet: qm.FacetResponse = await self._asked(
            self._client.facet(
                self.collection,
                "speaker",
                facet_filter=self._words.scope_filter(Scope(tenant=tenant)),
                limit=1000,
                exact=True,
            )
        )
        return frozenset(str(hit.value) for hit in facet.hits)

    async def _seen_again(self) -> IndexCard | None:
        try:
            return await self._read_card()
        except CollectionLost:
            return None

    async def _made_or_checked(self) -> IndexCard:
        ask, client, name = self._server.ask, self._client, self.collection
        if not await ask(client.collection_exists(name)):
            await self._make()
        info = await ask(client.get_collection(name))
        if (misfit := self._words.misfit(info, self.embedder.dimension)) is not None:
            raise self._not_ours(f"{misfit}:")
        card = await self._read_card()
        if card is None and info.points_count:
            raise self._not_ours("holds points that orion-recall did not write:")
        # Before there is data: a server builds the index of a field as points come in.
        for field, schema in self._words.payload_indexes().items():
            if field not in info.payload_schema:
                await ask(
                    client.create_payload_index(name, field, field_schema=schema), self._server.patience.write
                )
        if card is None:
            mine = IndexCard.of(self.embedder)
            tokens = mine.tokens if self._words.has_tokens(info) else ""
            card = replace(mine, made=uuid4().hex, record=self._expected or "", tokens=tokens)
            await self._write_card(card)
        return card

    async def _make(self) -> None:
        log.info("making the collection %s", self.copy)
        width = self.embedder.token_width if isinstance(self.embedder, TokenVectors) else 0
        try:
            await self._server.ask(
                self._client.create_collection(
                    self.collection,
                    vectors_config=self._words.vectors(self.embedder.dimension, width),
                    sparse_vectors_config=self._words.sparse_vectors(),
                ),
                self._server.patience.write,
            )
        except SourceError:
            # Another worker that starts now may have been quicker.
            if not await self._server.ask(self._client.collection_exists(self.collection)):
                raise

    async def _read_card(self) -> IndexCard | None:
        """The card; None when there is none. SourceError when it is another model's."""
        # Of most replicas: one that lags would tell of an earlier position.
        call = self._client.retrieve(self.collection, [_CARD], with_payload=True, consistency=self._words.majority)
        records: list[qm.Record] = await self._asked(call)
        if not records:
            return None
        try:
            card = IndexCard(**(records[0].payload or {}))
            card = card.at(int(card.position))
        except (TypeError, ValueError) as error:
            raise self._not_ours("holds a card that cannot be read:") from error
        if (misfit := card.misfit(IndexCard.of(self.embedder))) is not None:
            raise self._not_ours(misfit)
        refuse_another(self._what, card.record or None, self._expected, advice=_ADVICE)
        return card

    async def _write_card(self, card: IndexCard) -> None:
        await self._write([IndexPoint(_CARD, None, {}, asdict(card))])
        self._card = card

    async def _write(self, points: Sequence[IndexPoint]) -> None:
        call = self._client.upsert(self.collection, self._words.points(points), wait=True)
        await self._asked(call, self._server.patience.write)

    @property
    def _what(self) -> str:
        return f"the collection {self.collection} at {self._server.address}"

    def _not_ours(self, reason: str) -> SourceError:
        return SourceError(
            f"the collection {self.collection} at {self._server.address} {reason} give ORION_QDRANT_COLLECTION "
            "another name, or delete the collection, and one will be made and filled from the record"
        )
