"""Points, filters, requests and collection parameters as values of Qdrant's client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from orion_recall.index.points import (
    DENSE_VECTORS,
    FLOAT_FIELDS,
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    SPARSE_VECTORS,
    TOKENS,
    TOLD,
    IndexPoint,
)
from orion_recall.index.requests import AnyOf, Condition, Filter, Is, Keys, OneToldTime, Search, Within
from orion_recall.models.sparse import SparseTerms

if TYPE_CHECKING:
    from qdrant_client.http import models as qm

    FieldIndex = qm.KeywordIndexParams | qm.IntegerIndexParams | qm.FloatIndexParams


_LEAST_EF, _ACORN_UP_TO = 400, 0.8


class QdrantRequests:
    """Builds values of the client's `models`, and reads its answers."""

    def __init__(self) -> None:
        # Not at the top: the client costs a process 44 MiB and a second, and few processes ask a server.
        from qdrant_client.http import models

        self.models = models
        self.majority = models.ReadConsistencyType.MAJORITY

    def vectors(self, dimension: int, token_width: int = 0) -> dict[str, qm.VectorParams]:
        """The dense vectors of a collection, and with a `token_width` those of the memories' tokens.

        The latter are compared by MaxSim and never searched among, so there is no graph of them.
        """
        models = self.models
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

    def sparse_vectors(self) -> dict[str, qm.SparseVectorParams]:
        """The keyword vectors of a collection."""
        modifier = self.models.Modifier.IDF
        return {name: self.models.SparseVectorParams(modifier=modifier) for name in SPARSE_VECTORS}

    def payload_indexes(self) -> dict[str, FieldIndex]:
        """What is filtered by. A server keeps the points of a tenant together."""
        models = self.models
        keyword, number = models.KeywordIndexType.KEYWORD, models.FloatIndexType.FLOAT
        integer = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)
        return {
            **dict.fromkeys(KEYWORD_FIELDS, models.KeywordIndexParams(type=keyword)),
            "tenant": models.KeywordIndexParams(type=keyword, is_tenant=True),
            **dict.fromkeys(NUMBER_FIELDS, integer),
            **dict.fromkeys(FLOAT_FIELDS, models.FloatIndexParams(type=number)),
        }

    def misfit(self, info: qm.CollectionInfo, dimension: int) -> str | None:
        """What a collection lacks of ours; None when it has everything."""
        held, sparse = info.config.params.vectors, info.config.params.sparse_vectors or {}
        for name in DENSE_VECTORS:
            one = held.get(name) if isinstance(held, Mapping) else None
            if one is None:
                return f"has no vector named {name}"
            if one.size != dimension:
                return f"has vectors of {one.size} floats, and the model makes {dimension}"
            if one.distance != self.models.Distance.COSINE:
                return f"compares its vectors by {one.distance.value} instead of Cosine"
        for name in SPARSE_VECTORS:
            if name not in sparse:
                return f"has no sparse vector named {name}"
            if sparse[name].modifier != self.models.Modifier.IDF:
                return f"has a sparse vector {name} without the modifier idf"
        return None

    def points(self, points: Sequence[IndexPoint]) -> list[qm.PointStruct]:
        point = self.models.PointStruct
        return [point(id=one.key, vector=self._vectors(one), payload=one.payload) for one in points]

    def query(self, one: Search) -> qm.QueryRequest:
        """A search. How rare a word is, is counted among the tenant's own points (Qdrant 1.19 and newer).

        Among all memories of a scope a server searches its graph through neighbours of neighbours as well: else a
        filter cuts the graph, and much of what is nearest is not found.
        """
        models, params, nearest = self.models, None, cast("Any", one.query)
        if isinstance(one.query, SparseTerms):
            own = self.filter(Filter(must=(Is("tenant", one.tenant),)))
            nearest, params = self._sparse(one.query), models.SearchParams(idf=models.IdfCorpusParams(corpus=own))
        elif isinstance(one.query, np.ndarray):
            nearest = [[round(value, 5) for value in token] for token in one.query.tolist()]
        if one.among_all:
            acorn = models.AcornSearchParams(enable=True, max_selectivity=_ACORN_UP_TO)
            params = models.SearchParams(hnsw_ef=_LEAST_EF, acorn=acorn)
        return models.QueryRequest(
            query=models.NearestQuery(nearest=nearest),
            using=one.using,
            filter=self.filter(one.where),
            params=params,
            limit=one.limit,
            score_threshold=one.min_score,
            with_payload=list(one.payload) or False,
        )

    def filter(self, where: Filter) -> qm.Filter:
        must, should, must_not = ([self._condition(one) for one in part] or None for part in where)
        return self.models.Filter(must=must, should=should, must_not=must_not)

    def _condition(self, one: Condition) -> qm.Condition:
        models = self.models
        match one:
            case Is():
                return models.FieldCondition(key=one.field, match=models.MatchValue(value=one.value))
            case AnyOf():
                values = cast("list[str]", list(one.values))
                return models.FieldCondition(key=one.field, match=models.MatchAny(any=values))
            case Within():
                within = models.Range(gte=one.at_least, gt=one.above, lt=one.below)
                return models.FieldCondition(key=one.field, range=within)
            case Keys():
                return models.HasIdCondition(has_id=list(one.keys))
            case OneToldTime():
                each = models.Filter(must=[self._condition(condition) for condition in one.conditions])
                return models.NestedCondition(nested=models.Nested(key=TOLD, filter=each))
            case Filter():
                return self.filter(one)

    def by_time(self, *, newest_first: bool) -> qm.OrderBy:
        """The order of the memories' times; points without a time are left out."""
        direction = self.models.Direction.DESC if newest_first else self.models.Direction.ASC
        return self.models.OrderBy(key="ts", direction=direction)

    def _vectors(self, one: IndexPoint) -> dict[str, Any]:
        vectors: dict[str, Any] = {name: self._sparse(terms) for name, terms in one.sparse.items()}
        vectors |= one.unit_vectors
        if one.tokens is not None:
            assert not isinstance(one.tokens, str)  # a server's points are written whole
            tokens = one.tokens.tolist() if isinstance(one.tokens, np.ndarray) else one.tokens
            # As many digits as half a float has: a third of the bytes of a request.
            vectors[TOKENS] = [[round(value, 4) for value in token] for token in tokens]
        return vectors

    def _sparse(self, terms: SparseTerms) -> qm.SparseVector:
        return self.models.SparseVector(indices=list(terms.indices), values=list(terms.values))
