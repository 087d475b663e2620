"""Points, filters, requests and collection parameters as values of Qdrant's client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from orion_recall.index.passages import OF, tenants_of
from orion_recall.index.points import (
    DENSE_VECTORS,
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    SPARSE_VECTORS,
    TOKENS,
    TOLD,
    TOLD_FIELDS,
    IndexPoint,
    ToldCondition,
    ids_of,
    told_conditions,
)
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.values import Scope

if TYPE_CHECKING:
    from qdrant_client.http import models as qm

    FieldIndex = qm.KeywordIndexParams | qm.IntegerIndexParams | qm.FloatIndexParams


_LEAST_EF, _ACORN_UP_TO = 400, 0.8


class QdrantRequests:
    """Builds values of the client's `models`, and reads its answers."""

    def __init__(self) -> None:
        # Not at the top: the client costs a process 44 MiB and a second, and few processes ask a server.
        from qdrant_client.http import models

        self._models = models
        self.majority = models.ReadConsistencyType.MAJORITY

    def vectors(self, dimension: int, token_width: int = 0) -> dict[str, qm.VectorParams]:
        """The dense vectors of a collection, and with a `token_width` those of the memories' tokens.

        The latter are compared by MaxSim and never searched among, so there is no graph of them.
        """
        models = self._models
        params = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        vectors: dict[str, qm.VectorParams] = dict.fromkeys(DENSE_VECTORS, params)
        if token_width:
            vectors[TOKENS] = models.VectorParams(
                size=token_width,
                distance=models.Distance.DOT,
                datatype=models.Datatype.FLOAT16,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                hnsw_config=models.HnswConfigDiff(m=0),
            )
        return vectors

    def has_tokens(self, info: qm.CollectionInfo) -> bool:
        """Whether a collection has room for the vectors of tokens."""
        held = info.config.params.vectors
        return isinstance(held, Mapping) and TOKENS in held

    def sparse_vectors(self) -> dict[str, qm.SparseVectorParams]:
        """The keyword vectors of a collection."""
        modifier = self._models.Modifier.IDF
        return {name: self._models.SparseVectorParams(modifier=modifier) for name in SPARSE_VECTORS}

    def payload_indexes(self) -> dict[str, FieldIndex]:
        """What is filtered by. A server keeps the points of a tenant together."""
        keyword, number = self._models.KeywordIndexType.KEYWORD, self._models.FloatIndexType.FLOAT
        fields: dict[str, FieldIndex] = {
            name: self._models.KeywordIndexParams(type=keyword, is_tenant=True if name == "tenant" else None)
            for name in KEYWORD_FIELDS
        }
        integer = self._models.IntegerIndexParams(
            type=self._models.IntegerIndexType.INTEGER, lookup=True, range=False
        )
        fields |= dict.fromkeys(NUMBER_FIELDS, integer)
        return fields | {name: self._models.FloatIndexParams(type=number) for name in ("ts", *TOLD_FIELDS)}

    def misfit(self, info: qm.CollectionInfo, dimension: int) -> str | None:
        """What a collection lacks of ours; None when it has everything."""
        held, sparse = info.config.params.vectors, info.config.params.sparse_vectors or {}
        for name in DENSE_VECTORS:
            one = held.get(name) if isinstance(held, Mapping) else None
            if one is None:
                return f"has no vector named {name}"
            if one.size != dimension:
                return f"has vectors of {one.size} floats, and the model makes {dimension}"
            if one.distance != self._models.Distance.COSINE:
                return f"compares its vectors by {one.distance.value} instead of Cosine"
        for name in SPARSE_VECTORS:
            if name not in sparse:
                return f"has no sparse vector named {name}"
            if sparse[name].modifier != self._models.Modifier.IDF:
                return f"has a sparse vector {name} without the modifier idf"
        return None

    def points(self, points: Sequence[IndexPoint]) -> list[qm.PointStruct]:
        return [
            self._models.PointStruct(id=one.key, vector=self._vectors(one), payload=one.payload) for one in points
        ]

    def names_query(self, vector: Sequence[float], tenant: str, limit: int) -> qm.QueryRequest:
        """Entities by the cosine of their names."""
        return self._models.QueryRequest(
            query=self._models.NearestQuery(nearest=list(vector)),
            using="name",
            filter=self.scope_filter(Scope(tenant=tenant)),
            limit=limit,
            with_payload=["label"],
        )

    def dense_query(self, vector: Sequence[float], scope: Scope, limit: int, min_score: float) -> qm.QueryRequest:
        """Memories and further passages of memories nearest by cosine."""
        return self._models.QueryRequest(
            query=self._models.NearestQuery(nearest=list(vector)),
            using="dense",
            filter=self.scope_filter(scope, with_passages=True),
            params=self._among_neighbours(),
            limit=limit,
            score_threshold=min_score,
            with_payload=False,
        )

    def _among_neighbours(self) -> qm.SearchParams:
        """How a server searches its graph: of a part of all points through neighbours of neighbours as well.

        Without it a filter cuts the graph, and much of what is nearest is not found (see `graph_search`).
        """
        models = self._models
        acorn = models.AcornSearchParams(enable=True, max_selectivity=_ACORN_UP_TO)
        return models.SearchParams(hnsw_ef=_LEAST_EF, acorn=acorn)

    def passages_query(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int], limit: int
    ) -> qm.QueryRequest:
        """The points of some memories of a tenant and of their further passages, nearest by cosine."""
        models = self._models
        itself = models.HasIdCondition(has_id=list(keys))
        return models.QueryRequest(
            query=models.NearestQuery(nearest=list(vector)),
            using="dense",
            filter=models.Filter(must=[self._of_tenant(tenant)], should=[itself, self._passages_of(keys)]),
            limit=limit,
            with_payload=False,
        )

    def all_passages(self, tenant: str) -> qm.Filter:
        """The further passages of a tenant's memories."""
        return self._models.Filter(must=[self._is("tenant", tenants_of(tenant)[1])])

    def passages_of(self, keys: Sequence[int]) -> qm.Filter:
        """The further passages of some memories."""
        return self._models.Filter(must=[self._passages_of(keys)])

    def max_sim_query(self, tokens: Tokens, keys: Collection[int]) -> qm.QueryRequest:
        """Of each point of the keys the sum of the tokens' best dot products with its own, where it has such."""
        models = self._models
        return models.QueryRequest(
            query=models.NearestQuery(nearest=[[round(value, 5) for value in token] for token in tokens.tolist()]),
            using=TOKENS,
            filter=models.Filter(must=[models.HasIdCondition(has_id=list(keys))]),
            limit=len(keys),
            with_payload=False,
        )

    def sparse_query(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: str, payload: Sequence[str] = ()
    ) -> qm.QueryRequest:
        """Nearest by words; `payload` names what of a point comes back with it.

        How rare a word is, is counted among the tenant's own points (Qdrant 1.19 and newer): those of others never
        change a score.
        """
        own = self._models.IdfCorpusParams(corpus=self.scope_filter(Scope(tenant=scope.tenant)))
        return self._models.QueryRequest(
            query=self._models.NearestQuery(nearest=self._sparse(terms)),
            using=using,
            filter=self.scope_filter(scope),
            params=self._models.SearchParams(idf=own),
            limit=limit,
            with_payload=list(payload) or False,
        )

    def scope_filter(self, scope: Scope, *, titles: Sequence[str] = (), with_passages: bool = False) -> qm.Filter:
        """The scope, and one of the titles where some are given, as conditions that must all hold.

        Further passages of memories are in the scope only `with_passages`."""
        models = self._models
        conditions: list[qm.FieldCondition | qm.Filter] = [
            self._of_tenant(scope.tenant) if with_passages else self._is("tenant", scope.tenant)
        ]
        conditions.extend(self._is(field, wanted) for field, wanted in ids_of(scope))
        listed = (
            ("kind", scope.kinds), ("tags", scope.tags), ("titles", titles), ("speaker", scope.speakers)
        )  # fmt: skip
        for name, wanted in listed:
            if wanted:
                conditions.append(models.FieldCondition(key=name, match=models.MatchAny(any=list(wanted))))
        if scope.since is not None or scope.until is not None:
            within = models.Range(gte=scope.since, lt=scope.until)
            conditions.append(models.FieldCondition(key="ts", range=within))
        if scope.as_of is not None:
            later = models.FieldCondition(key="ts", range=models.Range(gt=scope.as_of))
            conditions.append(models.Filter(must_not=[later]))
        if scope.told:
            told = models.Filter(should=[self._told(one) for one in told_conditions(scope.told)])
            return models.Filter(must=[*conditions, told])
        return models.Filter(must=[*conditions])

    def _told(self, one: ToldCondition) -> qm.NestedCondition:
        models = self._models
        conditions: list[qm.FieldCondition] = []
        if one.before is not None:
            conditions.append(models.FieldCondition(key="since", range=models.Range(lt=one.before)))
        if one.after is not None:
            conditions.append(models.FieldCondition(key="until", range=models.Range(gt=one.after)))
        if one.weekdays:
            match = models.MatchAny(any=list(one.weekdays))
            conditions.append(models.FieldCondition(key="weekday", match=match))
        return models.NestedCondition(nested=models.Nested(key=TOLD, filter=models.Filter(must=[*conditions])))

    def scope_without(self, scope: Scope, sessions: Sequence[str]) -> qm.Filter:
        """The scope without the memories of some sessions."""
        left_out = self._models.FieldCondition(key="session", match=self._models.MatchAny(any=list(sessions)))
        return self._models.Filter(must=self.scope_filter(scope).must, must_not=[left_out])

    def by_time(self, *, newest_first: bool) -> qm.OrderBy:
        """The order of the memories' times; points without a time are left out."""
        direction = self._models.Direction.DESC if newest_first else self._models.Direction.ASC
        return self._models.OrderBy(key="ts", direction=direction)

    @property
    def memories(self) -> qm.Filter:
        """The points that are memories: an entity has no version, and neither has the metadata point."""
        models = self._models
        return models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key="version"))])

    def giving(self, tenant: str, folded: str, batch_keys: Sequence[int]) -> qm.Filter:
        """Memories of a tenant that give a name, other than those of the keys."""
        return self._models.Filter(
            must=[self._is("tenant", tenant), self._is("names", folded)],
            must_not=[self._models.HasIdCondition(has_id=list(batch_keys))],
        )

    def only(self, keys: Sequence[int]) -> qm.PointIdsList:
        """Points by key."""
        return self._models.PointIdsList(points=list(keys))

    def _of_tenant(self, tenant: str) -> qm.FieldCondition:
        models = self._models
        return models.FieldCondition(key="tenant", match=models.MatchAny(any=list(tenants_of(tenant))))

    def _passages_of(self, keys: Sequence[int]) -> qm.FieldCondition:
        return self._models.FieldCondition(key=OF, match=self._models.MatchAny(any=list(keys)))

    def _is(self, key: str, value: str) -> qm.FieldCondition:
        return self._models.FieldCondition(key=key, match=self._models.MatchValue(value=value))

    def _vectors(self, one: IndexPoint) -> dict[str, Any]:
        vectors: dict[str, Any] = {name: self._sparse(terms) for name, terms in one.sparse.items()}
        vectors |= one.unit_vectors
        if (tokens := one.token_vectors) is not None:
            # As many digits as half a float has: a third of the bytes of a request.
            vectors[TOKENS] = [[round(value, 4) for value in token] for token in tokens]
        return vectors

    def _sparse(self, terms: SparseTerms) -> qm.SparseVector:
        return self._models.SparseVector(indices=list(terms.indices), values=list(terms.values))


def scored(found: qm.QueryResponse, *, above: float | None = None) -> list[tuple[int, float]]:
    """What a search found: (key, score), best first. Our ids are numbers."""
    hits = [(point.id, point.score) for point in found.points if above is None or point.score > above]
    return cast("list[tuple[int, float]]", hits)
