"""Points and filters in the words of Qdrant Edge."""

from __future__ import annotations

from collections.abc import Sequence

import qdrant_edge as qe

from orion_recall.index.points import TOKENS, IndexPoint
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.values import Scope


def scope_filter(scope: Scope, *, titles: Sequence[str] = ()) -> qe.Filter:
    """The scope, and one of the titles where some are given, as conditions that must all hold."""
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
    """The vectors of a memory's tokens: compared by MaxSim, never searched among, so there is no graph of them."""
    return qe.EdgeVectorParams(
        size=width,
        distance=qe.Distance.Dot,
        datatype=qe.VectorStorageDatatype.Float16,
        multivector_config=qe.MultiVectorConfig(qe.MultiVectorComparator.MaxSim),
        hnsw_config=qe.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )


def max_sim_request(tokens: Tokens, keys: Sequence[int]) -> qe.QueryRequest:
    """Of each memory of the keys that has such vectors, the sum of the tokens' best dot products with its own."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(tokens.tolist(), using=TOKENS),
        limit=len(keys),
        filter=qe.Filter(must=[qe.HasIdCondition(set(keys))]),
    )


def titled_request(names: Sequence[str], scope: Scope, limit: int) -> qe.ScrollRequest:
    """For memories of a title among the names, with their titles."""
    conditions = scope_filter(scope, titles=names)
    return qe.ScrollRequest(filter=conditions, limit=limit, with_payload=["titles"], with_vector=False)


def _is(key: str, value: str) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def edge_point(one: IndexPoint) -> qe.Point:
    """A point as Edge takes it."""
    vectors: dict[str, qe.NamedVector] = {name: _sparse(terms) for name, terms in one.sparse.items()}
    for name, vector in one.unit_vectors.items():
        vectors[name] = list(vector)
    if one.tokens is not None:
        vectors[TOKENS] = one.tokens
    return qe.Point(one.key, vectors, one.payload)


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
