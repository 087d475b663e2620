"""Points, filters and requests as Qdrant Edge takes them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import qdrant_edge as qe

from orion_recall.index.embedded.document_frequencies import NO_POINTS, params_of
from orion_recall.index.passages import OF, tenants_of
from orion_recall.index.points import TOKENS, TOLD, HalfTokens, IndexPoint, ToldCondition, ids_of, told_conditions
from orion_recall.models.sparse import SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.values import Scope


def scope_filter(
    scope: Scope, *, titles: Sequence[str] = (), with_passages: bool = False, told_roughly: bool = False
) -> qe.Filter:
    """The scope, and one of the titles if any are given, as conditions that must all hold.

    Further passages of memories are in the scope only `with_passages`. With `told_roughly` a memory is let through,
    too, of which one told time begins early enough and another one ends late enough: the engine has indexes for
    that, and would read the payload of every memory to see whether they are one.
    """
    conditions: list[qe.ConditionType] = [
        _of_tenant(scope.tenant) if with_passages else _is("tenant", scope.tenant)
    ]
    if titles:
        conditions.append(qe.FieldCondition("titles", match=qe.MatchAny(list(titles))))
    for field, wanted in ids_of(scope):
        conditions.append(_is(field, wanted))
    if scope.kinds:
        conditions.append(qe.FieldCondition("kind", match=qe.MatchAny(list(scope.kinds))))
    if scope.speakers:
        conditions.append(qe.FieldCondition("speaker", match=qe.MatchAny(list(scope.speakers))))
    if scope.tags:
        conditions.append(qe.FieldCondition("tags", match=qe.MatchAny(list(scope.tags))))
    if scope.since is not None or scope.until is not None:
        conditions.append(qe.FieldCondition("ts", range=qe.RangeFloat(gte=scope.since, lt=scope.until)))
    if scope.as_of is not None:
        later = qe.FieldCondition("ts", range=qe.RangeFloat(gt=scope.as_of))
        conditions.append(qe.Filter(must_not=[later]))
    if scope.told:
        told = _told_roughly if told_roughly else _told
        conditions.append(qe.Filter(should=[told(one) for one in told_conditions(scope.told)]))
    return qe.Filter(must=conditions)


def _told(one: ToldCondition) -> qe.NestedCondition:
    return qe.NestedCondition(TOLD, qe.Filter(must=_of_told_time(one, "")))


def _told_roughly(one: ToldCondition) -> qe.Filter:
    """Told times for which the parts of the condition hold, each of any of them."""
    return qe.Filter(must=_of_told_time(one, f"{TOLD}[]."))


def _of_told_time(one: ToldCondition, prefix: str) -> list[qe.ConditionType]:
    conditions: list[qe.ConditionType] = []
    if one.before is not None:
        conditions.append(qe.FieldCondition(f"{prefix}since", range=qe.RangeFloat(lt=one.before)))
    if one.after is not None:
        conditions.append(qe.FieldCondition(f"{prefix}until", range=qe.RangeFloat(gt=one.after)))
    if one.weekdays:
        conditions.append(qe.FieldCondition(f"{prefix}weekday", match=qe.MatchAny(list(one.weekdays))))
    return conditions


def token_vectors(width: int) -> qe.EdgeVectorParams:
    """Parameters of the token vectors: compared by MaxSim and never searched, so they have no graph.

    The engine keeps a byte for each number: a MaxSim differs by a thousandth from that of half floats, which take
    twice as much. An index keeps the type that it was made with.
    """
    return qe.EdgeVectorParams(
        size=width,
        distance=qe.Distance.Dot,
        datatype=qe.VectorStorageDatatype.Turbo8,
        multivector_config=qe.MultiVectorConfig(qe.MultiVectorComparator.MaxSim),
        hnsw_config=qe.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )


def dense_request(
    shard: qe.EdgeShard,
    vector: Sequence[float],
    scope: Scope,
    limit: int,
    min_score: float,
    *,
    with_passages: bool = False,
) -> qe.QueryRequest:
    """Memories nearest by cosine, `with_passages` further passages as well, looked for as `graph_search` says.

    Told times are compared roughly, and come with what is found."""
    wanted = scope_filter(scope, with_passages=with_passages, told_roughly=True)
    return qe.QueryRequest(
        query=qe.Query.Nearest(list(vector), using="dense"),
        limit=limit,
        filter=wanted,
        params=params_of(shard, wanted, limit),
        score_threshold=min_score,
        with_payload=_payload_of(scope),
    )


def passages_of_request(vector: Sequence[float], tenant: str, keys: Sequence[int], limit: int) -> qe.QueryRequest:
    """The points of some memories of a tenant and of their further passages, nearest by cosine."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(list(vector), using="dense"),
        limit=limit,
        filter=qe.Filter(must=[_of_tenant(tenant)], should=[qe.HasIdCondition(set(keys)), _passages_of(keys)]),
    )


def further_passages_request(keys: Sequence[int], limit: int, offset: int | None) -> qe.ScrollRequest:
    """The keys of the further passages of some memories."""
    return qe.ScrollRequest(
        filter=qe.Filter(must=[_passages_of(keys)]),
        limit=limit,
        offset=offset,
        with_payload=False,
        with_vector=False,
    )


def sparse_batch(
    terms: SparseTerms, scope: Scope, limit: int, using: Sequence[str], with_idf: Sequence[SparseTerms] | None
) -> qe.QueryBatchRequest:
    """Memories by BM25, one request for each sparse vector of `using`; `with_idf` as for `entity_request`.

    Told times are compared roughly, and come with what is found."""
    conditions, (vectors, counted) = (
        scope_filter(scope, told_roughly=True),
        _counted(terms, scope.tenant, with_idf, len(using)),
    )
    return qe.QueryBatchRequest(
        [
            qe.QueryRequest(
                query=qe.Query.Nearest(vector, using=name),
                limit=limit,
                filter=conditions,
                params=counted,
                with_payload=_payload_of(scope),
            )
            for vector, name in zip(vectors, using, strict=True)
        ]
    )


def entity_request(
    terms: SparseTerms, tenant: str, limit: int, with_idf: Sequence[SparseTerms] | None
) -> qe.QueryRequest:
    """Entities whose names share words with the terms.

    `with_idf` are the terms as `DocumentFrequencies.weighted` gives them; None: the engine counts.
    """
    (vector,), counted = _counted(terms, tenant, with_idf, 1)
    return qe.QueryRequest(
        query=qe.Query.Nearest(vector, using="entity"),
        limit=limit,
        filter=scope_filter(Scope(tenant=tenant)),
        params=counted,
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


def speakers_request(scope: Scope) -> qe.FacetRequest:
    """The speakers of the memories in a scope, at most 1000 of each segment.

    Not exact: the names are the same, and how many memories each has is not counted again (five to twenty times the
    CPU).
    """
    return qe.FacetRequest("speaker", 1000, False, scope_filter(scope))


def spoken_request(scope: Scope, speaker: str) -> qe.ScrollRequest:
    """One memory of a speaker in a scope."""
    wanted = scope_filter(replace(scope, speakers=(speaker,)))
    return qe.ScrollRequest(filter=wanted, limit=1, with_payload=False, with_vector=False)


def max_sim_request(tokens: Tokens, keys: Collection[int]) -> qe.QueryRequest:
    """MaxSim of points by key: the sum of the tokens' best dot products with the memory's token vectors."""
    return qe.QueryRequest(
        query=qe.Query.Nearest(tokens.tolist(), using=TOKENS),
        limit=len(keys),
        filter=qe.Filter(must=[qe.HasIdCondition(set(keys))]),
    )


def titled_request(names: Sequence[str], scope: Scope, limit: int) -> qe.ScrollRequest:
    """Memories with one of the names as a title, with their titles."""
    conditions = scope_filter(scope, titles=names)
    return qe.ScrollRequest(filter=conditions, limit=limit, with_payload=["titles"], with_vector=False)


def in_time_order_request(
    scope: Scope, limit: int, *, newest_first: bool, without_sessions: Sequence[str]
) -> qe.ScrollRequest:
    """Dated memories of the scope by their time, with time and session."""
    conditions = scope_filter(scope)
    if without_sessions:
        left_out = qe.FieldCondition("session", match=qe.MatchAny(list(without_sessions)))
        conditions = qe.Filter(must=conditions.must, must_not=[left_out])
    direction = qe.Direction.Desc if newest_first else qe.Direction.Asc
    return qe.ScrollRequest(
        filter=conditions,
        limit=limit,
        with_payload=["ts", "session"],
        with_vector=False,
        order_by=qe.OrderBy("ts", direction),
    )


def _counted(
    terms: SparseTerms, tenant: str, with_idf: Sequence[SparseTerms] | None, count: int
) -> tuple[Sequence[qe.SparseVector], qe.SearchParams]:
    """The terms for so many requests, and over which points the engine counts how rare they are.

    The tenant's own: those of others never change a score. The whole tenant and not the scope is counted, so that a
    narrower scope gives a memory the same score.
    """
    if with_idf is not None:
        return [_sparse(each) for each in with_idf], NO_POINTS
    return [_sparse(terms)] * count, qe.SearchParams(idf=qe.IdfParams(scope_filter(Scope(tenant=tenant))))


def _payload_of(scope: Scope) -> list[str] | bool:
    return [TOLD] if scope.told else False


def _of_tenant(tenant: str) -> qe.FieldCondition:
    return qe.FieldCondition("tenant", match=qe.MatchAny(list(tenants_of(tenant))))


def _passages_of(keys: Sequence[int]) -> qe.FieldCondition:
    return qe.FieldCondition(OF, match=qe.MatchAny(list(keys)))


def _is(key: str, value: str) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def edge_point(one: IndexPoint) -> qe.Point:
    vectors: dict[str, qe.NamedVector] = {name: _sparse(terms) for name, terms in one.sparse.items()}
    vectors |= one.unit_vectors
    if one.tokens is not None:
        vectors[TOKENS] = _packed(one.tokens) if isinstance(one.tokens, np.ndarray) else one.tokens
    return qe.Point(one.key, vectors, one.payload)


def _packed(vectors: HalfTokens) -> list[list[float]]:
    """The vectors as packed arrays of floats, which the engine reads as it reads lists of Python's.

    A memory has some four thousand numbers here. To make a Python object of each takes more than twice as long.
    """
    whole = vectors.astype(np.float32)
    return cast("list[list[float]]", [array("f", row.tobytes()) for row in whole])


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
