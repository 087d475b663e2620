"""Points, filters and requests as Qdrant Edge takes them."""

from __future__ import annotations

from collections.abc import Sequence

import qdrant_edge as qe

from orion_recall.index.points import TOKENS, IndexPoint
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.values import Scope


def scope_filter(scope: Scope, *, titles: Sequence[str] = ()) -> qe.Filter:
    """The scope, and one of the titles if any are given, as conditions that must all hold."""
    conditions: list[qe.ConditionType] = [_is("tenant", scope.tenant)]
    if titles:
        conditions.append(qe.FieldCondition("titles", match=qe.MatchAny(list(titles))))
    if scope.session_id is not None:
        conditions.append(_is("session", scope.session_id))
    if scope.user_id is not None:
        conditions.append(_is("user", scope.user_id))
    if scope.kinds:
        conditions.append(qe.FieldCondition("kind", match=qe.MatchAny(list(scope.kinds))))
    if scope.tags:
        conditions.append(qe.FieldCondition("tags", match=qe.MatchAny(list(scope.tags))))
    if scope.since is not None or scope.until is not None:
        conditions.append(qe.FieldCondition("ts", range=qe.RangeFloat(gte=scope.since, lt=scope.until)))
    return qe.Filter(must=conditions)


def token_vectors(width: int) -> qe.EdgeVectorParams:
    """Parameters of the token vectors: compared by MaxSim and never searched, so they have no graph."""
    return qe.EdgeVectorParams(
        size=width,
        distance=qe.Distance.Dot,
        datatype=qe.VectorStorageDatatype.Float16,
        multivector_config=qe.MultiVectorConfig(qe.MultiVectorComparator.MaxSim),
        hnsw_config=qe.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )


def dense_request(vector: Sequence[float], scope: Scope, limit: int, min_score: float) -> qe.QueryRequest:
    """Memories nearest by cosine."""
    query = qe.Query.Nearest(list(vector), using="dense")
    return qe.QueryRequest(query=query, limit=limit, filter=scope_filter(scope), score_threshold=min_score)


def sparse_batch(terms: SparseTerms, scope: Scope, limit: int, using: Sequence[str]) -> qe.QueryBatchRequest:
    """Memories by BM25, one request for each sparse vector of `using`."""
    conditions, vector = scope_filter(scope), _sparse(terms)
    return qe.QueryBatchRequest(
        [
            qe.QueryRequest(query=qe.Query.Nearest(vector, using=name), limit=limit, filter=conditions)
            for name in using
        ]
    )


def entity_request(terms: SparseTerms, tenant: str, limit: int) -> qe.QueryRequest:
    """Entities whose names share words with the terms."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(_sparse(terms), using="entity"),
        limit=limit,
        filter=scope_filter(Scope(tenant=tenant)),
        with_payload=["label", "aliases"],
    )


def names_request(vector: Sequence[float], tenant: str, limit: int) -> qe.QueryRequest:
    """Entities whose names are nearest by cosine."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(list(vector), using="name"),
        limit=limit,
        filter=scope_filter(Scope(tenant=tenant)),
        with_payload=["label"],
    )


def speakers_request(tenant: str) -> qe.FacetRequest:
    """The speakers of a tenant's memories, at most 1000."""
    return qe.FacetRequest("speaker", 1000, True, scope_filter(Scope(tenant=tenant)))


def max_sim_request(tokens: Tokens, keys: Sequence[int]) -> qe.QueryRequest:
    """MaxSim of memories by key: the sum of the tokens' best dot products with the memory's token vectors."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(tokens.tolist(), using=TOKENS),
        limit=len(keys),
        filter=qe.Filter(must=[qe.HasIdCondition(set(keys))]),
    )


def titled_request(names: Sequence[str], scope: Scope, limit: int) -> qe.ScrollRequest:
    """Memories with one of the names as a title, with their titles."""
    conditions = scope_filter(scope, titles=names)
    return qe.ScrollRequest(filter=conditions, limit=limit, with_payload=["titles"], with_vector=False)


def _is(key: str, value: str) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def edge_point(one: IndexPoint) -> qe.Point:
    """The point for Edge."""
    vectors: dict[str, qe.NamedVector] = {name: _sparse(terms) for name, terms in one.sparse.items()}
    for name, vector in one.unit_vectors.items():
        vectors[name] = list(vector)
    if one.tokens is not None:
        vectors[TOKENS] = one.tokens
    return qe.Point(one.key, vectors, one.payload)


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
