"""Points and filters in the words of Qdrant Edge."""

from __future__ import annotations

from collections.abc import Sequence

import qdrant_edge as qe

from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.points import IndexPoint, entities_as_points, memories_as_points
from orion_recall.values import Change, Scope


async def memory_points(changes: Sequence[Change], embedder: Embedder, sparse: SparseEncoder) -> list[qe.Point]:
    """One point a memory, with its dense, text and context vectors."""
    return [_point(one) for one in await memories_as_points(changes, embedder, sparse)]


def entity_points(changes: Sequence[Change], sparse: SparseEncoder) -> list[qe.Point]:
    """One point for every entity named, found by the words of its name."""
    return [_point(one) for one in entities_as_points(changes, sparse)]


def scope_filter(scope: Scope) -> qe.Filter:
    """The scope as conditions that must all hold."""
    conditions: list[qe.ConditionType] = [_is("tenant", scope.tenant)]
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


def _is(key: str, value: str) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def _point(one: IndexPoint) -> qe.Point:
    vectors: dict[str, qe.NamedVector] = {name: _sparse(terms) for name, terms in one.sparse.items()}
    if one.dense is not None:
        vectors["dense"] = list(one.dense)
    return qe.Point(one.key, vectors, one.payload)


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
