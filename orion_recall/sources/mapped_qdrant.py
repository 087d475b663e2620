"""A Qdrant collection of somebody else's as a part of the vector and lexical arms. Nothing is written to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast

from httpx import HTTPError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.mappings import PayloadKeys, QdrantMapping
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text import number_of, storable, text_hash
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest, SourceName

T = TypeVar("T")


class MappedCollection:
    """One mapped collection, and how its payloads are read."""

    def __init__(self, mapping: QdrantMapping, client: AsyncQdrantClient) -> None:
        self.mapping, self._client = mapping, client

    async def nearest(
        self,
        query: Sequence[float] | models.SparseVector,
        using: str | None,
        request: SearchRequest,
        *,
        min_score: float | None,
    ) -> Sequence[Hit]:
        """Hits for a dense or sparse query vector, best first; none for a tenant to whom nothing here belongs.

        SourceError for a scope that needs a role which is not mapped.
        """
        if self.mapping.tenant not in (None, request.scope.tenant):
            return []
        conditions = scope_filter(self.mapping, request.scope)
        keys = self.mapping.payload
        found = await self._asked(
            lambda: self._client.query_points(
                self.mapping.collection,
                query=query if isinstance(query, models.SparseVector) else list(query),
                using=using or None,
                query_filter=conditions,
                limit=request.limit,
                score_threshold=min_score,
                with_payload=sorted({key.split(".")[0] for key in _mapped(keys)}),
            )
        )
        tenant = request.scope.tenant
        return [
            Hit(
                number_of(f"mapped\x1f{self.mapping.name}\x1f{tenant}", str(point.id)),
                point.score,
                partial(_memory, str(point.id), point.payload or {}, keys, self.mapping.name),
            )
            for point in found.points
            if text_of(point.payload or {}, keys.text) is not None
        ]

    async def sample(self) -> tuple[int, Mapping[str, Any] | None]:
        """How many points there are, and the payload of one of them."""
        count = await self._asked(lambda: self._client.count(self.mapping.collection, exact=False))
        points, _ = await self._asked(lambda: self._client.scroll(self.mapping.collection, limit=1))
        return count.count, (points[0].payload or {}) if points else None

    async def vectors(self) -> tuple[Mapping[str, tuple[int, str]], Sequence[str]]:
        """The collection's dense vectors (name to dimension and distance) and the names of its sparse ones."""
        info = await self._asked(lambda: self._client.get_collection(self.mapping.collection))
        dense = info.config.params.vectors or {}
        by_name = dense if isinstance(dense, dict) else {"": dense}
        return (
            {name: (one.size, one.distance.value) for name, one in by_name.items()},
            list(info.config.params.sparse_vectors or {}),
        )

    async def close(self) -> None:
        """Let the connections go."""
        await self._client.close()

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T:
        # An address may hold a password, so only the name is told.
        try:
            return await call()
        except (ResponseHandlingException, HTTPError, OSError) as error:
            raise TransientSourceError(
                f"the store {self.mapping.name!r} does not answer: {type(error).__name__}"
            ) from error
        except (ApiException, ValueError, KeyError) as error:
            raise SourceError(f"the store {self.mapping.name!r}: {str(error)[:300]}") from error


class MappedVectorSource:
    """A mapped collection in the vector arm. Its vectors must be of the service's own embedding model."""

    name: SourceName = "vector"

    def __init__(self, collection: MappedCollection, embedder: Embedder) -> None:
        self._collection, self._embedder = collection, embedder

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Nearest by meaning, best first."""
        vector = await self._embedder.embed_query(request.question.dense_text)
        using = self._collection.mapping.vector
        return await self._collection.nearest(vector.tolist(), using, request, min_score=request.min_score)


class MappedLexicalSource:
    """A mapped collection with a sparse vector in the lexical arm."""

    name: SourceName = "lexical"

    def __init__(self, collection: MappedCollection, sparse: SparseEncoder) -> None:
        self._collection, self._sparse = collection, sparse

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Nearest by words, best first."""
        terms = self._sparse.encode_query(request.question.keyword_text)
        if not terms.indices:
            return []
        vector = models.SparseVector(indices=list(terms.indices), values=list(terms.values))
        return await self._collection.nearest(vector, self._collection.mapping.sparse, request, min_score=None)


def scope_filter(mapping: QdrantMapping, scope: Scope) -> models.Filter:
    """The scope as conditions that must all hold. SourceError when a part of it has no payload key."""
    keys, conditions = mapping.payload, cast("list[models.Condition]", [])

    def key(role: str) -> str:
        name = cast("str | None", getattr(keys, role))
        if name is None:
            raise SourceError(
                f"the store {mapping.name!r} has no payload key for {role}: it cannot keep to this scope"
            )
        return name

    def add(role: str, match: models.MatchValue | models.MatchAny) -> None:
        conditions.append(models.FieldCondition(key=key(role), match=match))

    if mapping.tenant is None:
        add("tenant", models.MatchValue(value=scope.tenant))
    if scope.session_id is not None:
        add("session", models.MatchValue(value=scope.session_id))
    if scope.user_id is not None:
        add("user", models.MatchValue(value=scope.user_id))
    if scope.kinds:
        add("kind", models.MatchAny(any=list(scope.kinds)))
    if scope.tags:
        add("tags", models.MatchAny(any=list(scope.tags)))
    if scope.since is not None or scope.until is not None:
        if keys.time_format == "epoch":
            between: Any = models.Range(gte=scope.since, lt=scope.until)
        else:
            between = models.DatetimeRange(gte=_moment(scope.since), lt=_moment(scope.until))
        conditions.append(models.FieldCondition(key=key("time"), range=between))
    return models.Filter(must=conditions)


def value_at(payload: Mapping[str, Any], key: str | None) -> Any:
    """What stands under a dotted key, None when nothing does."""
    value: Any = payload
    for part in (key or "").split("."):
        value = cast("Mapping[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    return value


def text_of(payload: Mapping[str, Any], key: str | None) -> str | None:
    """The text or number under a dotted key as text, None for anything else."""
    value = value_at(payload, key) if key else None
    return storable(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def time_of(value: Any) -> float | None:
    """Epoch seconds of ISO 8601 text (UTC without a zone) or of a number; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _memory(point_id: str, payload: Mapping[str, Any], keys: PayloadKeys, store: str) -> MemoryView:
    text = text_of(payload, keys.text) or ""
    tags = value_at(payload, keys.tags) if keys.tags else None
    return MemoryView(
        id=point_id,
        text=text,
        text_hash=text_hash(text),
        kind=text_of(payload, keys.kind),
        title=text_of(payload, keys.title),
        speaker=text_of(payload, keys.speaker),
        session_id=text_of(payload, keys.session),
        user_id=text_of(payload, keys.user),
        ts=time_of(value_at(payload, keys.time)) if keys.time else None,
        uri=text_of(payload, keys.uri),
        source_ref=store,
        tags=tuple(str(tag) for tag in cast("list[Any]", tags))
        if isinstance(tags, list)
        else ((tags,) if isinstance(tags, str) else ()),
    )


def _mapped(keys: PayloadKeys) -> list[str]:
    named = keys.model_dump(exclude={"time_format"})
    return [key for key in named.values() if key is not None]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(min(max(seconds, 0.0), 4e9), UTC)
