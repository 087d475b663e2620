"""An external Qdrant collection as a read-only store of the vector and lexical sources."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from orion_recall.errors import ScopeNotKept, SourceError, TransientSourceError
from orion_recall.external.mappings import PayloadKeys, QdrantMapping
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.index.requests import ids_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.hits import MOST_LINE, MOST_NAME, MOST_TEXT, cited_id, mapped_key, tags_of
from orion_recall.sources.vector_lexical import vector_of
from orion_recall.text.normal import storable, text_hash
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest, SourceName, in_calendar

if TYPE_CHECKING:
    from qdrant_client.http import models as qm

T = TypeVar("T")

_UNITS = {"epoch": 1, "epoch_ms": 1000}
"""Of times that are numbers: how many of them make a second."""
_MILLISECONDS_FROM = 1e11
"""As in messages (`contracts.fields`): as seconds this would be the year 5138."""


class MappedCollection:
    """One mapped collection, and how its payloads are read."""

    def __init__(self, mapping: QdrantMapping, server: QdrantServer) -> None:
        # Not at the top: the client costs a process 44 MiB and a second, and few processes ask a server.
        from qdrant_client.http import models

        self.mapping, self._server, self._models = mapping, server, models

    async def nearest(
        self,
        query: Sequence[float] | SparseTerms,
        using: str | None,
        request: SearchRequest,
        *,
        min_score: float | None,
    ) -> Sequence[Hit]:
        """Hits for a query vector, best first. ScopeNotKept for a scope that the store cannot keep to."""
        if not self.answers_for(request.scope.tenant):
            return []
        keys, name, tenant = self.mapping.payload, self.mapping.name, request.scope.tenant
        if isinstance(query, SparseTerms):
            vector: Any = self._models.SparseVector(indices=list(query.indices), values=list(query.values))
        else:
            vector = list(query)
        mapped = (key for key in keys.model_dump(exclude={"time_format"}).values() if key is not None)
        asking = self._server.client.query_points(
            self.mapping.collection,
            query=vector,
            using=using or None,
            query_filter=self.scope_filter(request.scope),
            limit=request.limit,
            score_threshold=min_score,
            with_payload=sorted({key.split(".")[0] for key in mapped}),
        )
        found = await self._asked(asking, narrowed=request.scope != Scope(tenant=tenant))
        read = ((str(point.id), point.score, point.payload or {}) for point in found.points)
        return [
            Hit(mapped_key(name, tenant, own_id), score, partial(_memory, own_id, payload, keys, name))
            for own_id, score, payload in read
            if text_of(payload, keys.text) is not None
        ]

    def answers_for(self, tenant: str) -> bool:
        """Whether the tenant may have points here; where each point says whose it is the points have to tell."""
        return self.mapping.tenant in (None, tenant)

    async def sample(self) -> tuple[int, Mapping[str, Any] | None]:
        """How many points there are, and the payload of one of them."""
        client, name = self._server.client, self.mapping.collection
        count = await self._asked(client.count(name, exact=False))
        points, _ = await self._asked(client.scroll(name, limit=1))
        return count.count, (points[0].payload or {}) if points else None

    async def vectors(self) -> tuple[Mapping[str, tuple[int, str]], Sequence[str]]:
        """The collection's dense vectors (name to dimension and distance) and the names of its sparse ones."""
        info = await self._asked(self._server.client.get_collection(self.mapping.collection))
        dense = info.config.params.vectors or {}
        by_name = dense if isinstance(dense, dict) else {"": dense}
        return (
            {name: (one.size, one.distance.value) for name, one in by_name.items()},
            list(info.config.params.sparse_vectors or {}),
        )

    async def close(self) -> None:
        await self._server.close()

    def scope_filter(self, scope: Scope) -> qm.Filter:
        """The scope as conditions that must all hold. ScopeNotKept when a part of it has no payload key."""
        models, keys = self._models, self.mapping.payload
        if scope.told:
            raise ScopeNotKept(f"the store {self.mapping.name!r} cannot be searched by the times that texts tell")
        wanted: list[tuple[str, Any]] = []
        if self.mapping.tenant is None:
            wanted.append(("tenant", models.MatchValue(value=scope.tenant)))
        wanted += [(role, models.MatchValue(value=value)) for role, value in ids_of(scope)]
        # Speakers only narrow the search for what somebody said; who it was is judged again afterwards.
        speakers = scope.speakers if keys.speaker is not None else ()
        for role, values in (("kind", scope.kinds), ("tags", scope.tags), ("speaker", speakers)):
            if values:
                wanted.append((role, models.MatchAny(any=list(values))))
        conditions = [models.FieldCondition(key=self._key(role), match=match) for role, match in wanted]
        if scope.since is not None or scope.until is not None:
            conditions.append(self._within(gte=scope.since, lt=scope.until))
        if scope.as_of is not None and keys.time is not None:
            return models.Filter(must=[*conditions], must_not=[self._within(gt=scope.as_of)])
        return models.Filter(must=[*conditions])

    def _within(self, **bounds: float | None) -> qm.FieldCondition:
        """A condition on the time, in the unit of the collection's payloads."""
        unit = _UNITS.get(self.mapping.payload.time_format)
        given = {name: at for name, at in bounds.items() if at is not None}
        if unit is not None:
            within: Any = self._models.Range(**{name: at * unit for name, at in given.items()})
        else:
            within = self._models.DatetimeRange(**{name: in_calendar(at) for name, at in given.items()})
        return self._models.FieldCondition(key=self._key("time"), range=within)

    def _key(self, role: str) -> str:
        name = cast("str | None", getattr(self.mapping.payload, role))
        if name is None:
            what = f"the store {self.mapping.name!r} has no payload key for {role}"
            raise ScopeNotKept(f"{what}: it cannot keep to this scope")
        return name

    async def _asked(self, call: Awaitable[T], *, narrowed: bool = False) -> T:
        try:
            return await self._server.ask(call)
        except SourceError as error:
            # The server's words are those for the service's own index.
            told = f"the store {self.mapping.name!r}: {str(error).replace('the index at', 'the server at')}"
            told = told.replace("ORION_QDRANT_URL", "`url`").replace("ORION_QDRANT_API_KEY", "`api_key_env`")
            if isinstance(error, TransientSourceError):
                raise TransientSourceError(told) from error
            # What is refused with further conditions may be answered without them.
            raise (ScopeNotKept if narrowed else SourceError)(told) from error


class MappedVectorSource:
    """A mapped collection in the vector source. Its vectors must be of the service's own embedding model."""

    name: SourceName = "vector"

    def __init__(self, collection: MappedCollection, embedder: Embedder) -> None:
        self._collection, self._embedder, self.answers_for = collection, embedder, collection.answers_for

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        vector, using = await vector_of(request.question, self._embedder), self._collection.mapping.vector
        return await self._collection.nearest(vector, using, request, min_score=request.min_score)


class MappedLexicalSource:
    """A mapped collection with a sparse vector in the lexical source."""

    name: SourceName = "lexical"

    def __init__(self, collection: MappedCollection, sparse: SparseEncoder) -> None:
        self._collection, self._sparse, self.answers_for = collection, sparse, collection.answers_for

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        terms, using = self._sparse.encode_query(request.question.keyword_text), self._collection.mapping.sparse
        return await self._collection.nearest(terms, using, request, min_score=None) if terms.indices else []


def value_at(payload: Mapping[str, Any], key: str | None) -> Any:
    """What stands under a dotted key, None when nothing does."""
    value: Any = payload
    for part in (key or "").split("."):
        value = cast("Mapping[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    return value


def text_of(payload: Mapping[str, Any], key: str | None, most: int = MOST_TEXT) -> str | None:
    """The text or number under a dotted key as text, of that length at most; None for anything else."""
    value = value_at(payload, key) if key else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return storable(str(value)[:most])


def is_in_milliseconds(value: Any) -> bool:
    """Whether a time is a number that is no time in seconds."""
    return isinstance(value, int | float) and abs(value) >= _MILLISECONDS_FROM


def time_of(value: Any) -> float | None:
    """Epoch seconds of ISO 8601 text (UTC without a zone) or of a number, from 1e11 on milliseconds; else None."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value) / (1000 if is_in_milliseconds(value) else 1)
            return seconds if math.isfinite(seconds) else None
        moment = datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


_NAMES = {
    "kind": "kind", "speaker": "speaker", "session_id": "session", "user_id": "user", "agent_id": "agent",
    "run_id": "run",
}  # fmt: skip


def _memory(point_id: str, payload: Mapping[str, Any], keys: PayloadKeys, store: str) -> MemoryView:
    text = text_of(payload, keys.text) or ""
    tags = value_at(payload, keys.tags) if keys.tags else None
    tags = cast("list[object]", tags) if isinstance(tags, list) else [tags] if isinstance(tags, str) else []
    named: dict[str, Any] = {
        name: text_of(payload, getattr(keys, role), MOST_NAME) for name, role in _NAMES.items()
    }
    return MemoryView(
        id=cited_id(store, point_id),
        text=text,
        text_hash=text_hash(text),
        title=text_of(payload, keys.title, MOST_LINE),
        uri=text_of(payload, keys.uri, MOST_LINE),
        ts=time_of(value_at(payload, keys.time)) if keys.time else None,
        **named,
        source_ref=store,
        chatter=is_chatter(text),
        tags=tags_of(tags),
    )
