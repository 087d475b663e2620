"""Points, conditions and requests as Qdrant Edge takes them, how rare words are among a tenant's memories, and the
indexes of a shard's payload fields: each is made just before the first point with a value in its field.

Also an empty index takes some milliseconds to make and as many to load, and two files of a MiB: without holes, as
in a file system in memory, these take all of it. Most memories have values in a few of the fields. In a field
without an index no point has a value, so a condition on it never holds, and no point is looked at to say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, cast

import qdrant_edge as qe

from orion_recall.index.points import FLOAT_FIELDS, KEYWORD_FIELDS, NUMBER_FIELDS, TOLD, IndexPoint
from orion_recall.index.requests import (
    KEPT_FILTERS,
    AnyOf,
    Condition,
    Filter,
    Is,
    Keys,
    OneToldTime,
    Search,
    Within,
)
from orion_recall.index.texts import OF, tenants_of
from orion_recall.models.sparse import SparseTerms

_TYPES = qe.PayloadSchemaType
FIELD_TYPES: Final[Mapping[str, qe.PayloadSchemaType]] = {
    **dict.fromkeys(KEYWORD_FIELDS, _TYPES.Keyword),
    **dict.fromkeys(NUMBER_FIELDS, _TYPES.Integer),
    **dict.fromkeys(FLOAT_FIELDS, _TYPES.Float),
}
"""What is filtered by: the fields' paths in a payload, with the type of their values.

With a further one `metadata.FORMAT` is raised: points of an older index may have values there without an index.
"""

ALWAYS_INDEXED: Final = frozenset({"tenant"})
"""Fields that have an index in every shard: every point has a value there, and every search asks for it."""

# To make an index the engine reads the payload of every point that is there, under Python's lock: of 1,000 short
# ones in 5 ms, of 100,000 in 400, where syncing files takes no time. So a shard that has become so large gets all.
_ALL_FROM_POINTS = 2_000


def indexed_fields(shard: qe.EdgeShard) -> frozenset[str]:
    """The fields that the shard has indexes of."""
    return frozenset(shard.info().payload_schema)


def whole_fields(shard: qe.EdgeShard) -> frozenset[str]:
    """The fields that a shard just loaded has indexes of, in each of its segments.

    A process that was killed while it made one may have left it in some of them.
    """
    fields = indexed_fields(shard)
    for field in sorted(fields & FIELD_TYPES.keys()):
        add_field_index(shard, field)  # nothing is done where it is there
    return fields


def fields_to_index(points: Iterable[IndexPoint], held: int) -> frozenset[str]:
    """The fields that must have an index before these points are written; the shard holds so many with them."""
    if held >= _ALL_FROM_POINTS:
        return frozenset(FIELD_TYPES)
    found = set[str]()
    for point in points:
        found.update(point.payload)
        for told in point.payload.get(TOLD, ()):
            found.update(f"{TOLD}[].{name}" for name in told)
    return ALWAYS_INDEXED | (found & FIELD_TYPES.keys())


def add_field_index(shard: qe.EdgeShard, field: str) -> None:
    shard.update(qe.UpdateOperation.create_field_index(field, FIELD_TYPES[field]))


_NEVER = qe.HasIdCondition(set())
"""A condition that holds of no point: the engine answers at once."""
_NO_POINTS = qe.SearchParams(idf=qe.IdfParams(qe.Filter(must=[_NEVER])))
"""Counts over no points: every term has the same idf."""
_KEPT_FROM_POINTS = 20_000
"""In a smaller index the engine counts for each query: to find out what is not known would take as long."""
_MOST_TERMS = 100_000
_STALE_SHARE = 0.01


class TermRarity:
    """The idf of terms among a tenant's memories, kept until a hundredth of the points was written. Thread-safe.

    The engine would count for each query, by a filter: 2.5 ms of CPU at 99,000 memories.
    """

    def __init__(self) -> None:
        self._idf: dict[tuple[str, str, int], float] = {}
        self._written = 0

    def note(self, written: int, points: int) -> None:
        """Counts points that were written to an index of so many."""
        self._written += written
        if self._written > _STALE_SHARE * points:
            self._idf, self._written = {}, 0

    def weighted(self, shard: qe.EdgeShard, searches: Sequence[Search]) -> list[SparseTerms] | None:
        """The terms of searches with their idf: ask with that over no points. None: let the engine count."""
        if shard.info().points_count < _KEPT_FROM_POINTS:
            return None
        known = self._idf
        wanted = {
            (one.tenant, one.using, term) for one in searches for term in cast(SparseTerms, one.query).indices
        }
        if missing := [term for term in wanted if term not in known]:
            if len(known) + len(missing) > _MOST_TERMS:
                known = self._idf = {}
            known |= zip(missing, _idf_of(shard, missing), strict=True)
        weighted: list[SparseTerms] = []
        for one in searches:
            terms = cast(SparseTerms, one.query)
            idf = [known.get((one.tenant, one.using, term), 1.0) for term in terms.indices]
            values = tuple(value * each for value, each in zip(terms.values, idf, strict=True))
            weighted.append(SparseTerms(indices=terms.indices, values=values))
        return weighted


def _idf_of(shard: qe.EdgeShard, terms: Sequence[tuple[str, str, int]]) -> list[float]:
    """The idf of (tenant, vector, term) in units of that over no points: the ratio of the best scores."""
    requests: list[qe.QueryRequest] = []
    for tenant, using, term in terms:
        own = _of_tenant(tenant)
        for params in (qe.SearchParams(idf=qe.IdfParams(own)), _NO_POINTS):
            query = qe.Query.Nearest(qe.SparseVector([term], [1.0]), using=using)
            requests.append(qe.QueryRequest(query=query, limit=1, filter=own, params=params))
    best = [found[0].score if found else 0.0 for found in shard.query_batch(qe.QueryBatchRequest(requests))]
    pairs = zip(best[::2], best[1::2], strict=True)
    return [counted / plain if plain else 1.0 for counted, plain in pairs]


def edge_requests(
    shard: qe.EdgeShard,
    searches: Sequence[Search],
    rarity: TermRarity,
    fields: frozenset[str],
    tenants: frozenset[str] | None = None,
) -> list[qe.QueryRequest]:
    """The searches, all of them for words or none.

    `fields` are those that have an index. `tenants` are all that the shard has points of, None where they are many:
    a condition that lets all of them pass is left out. The engine would look at every point that has one of the
    words for it: five times the work.
    """
    if searches and isinstance(searches[0].query, SparseTerms):
        weighted = rarity.weighted(shard, searches)
        terms = weighted if weighted is not None else [cast(SparseTerms, one.query) for one in searches]
        # Over the tenant's own: those of others never change a score. Over the whole tenant, not the scope: a
        # narrower scope gives a memory the same score.
        own = searches[0].tenant
        params = _NO_POINTS
        if weighted is None:
            params = qe.SearchParams(idf=qe.IdfParams(_of_tenant(own)))
        if tenants is not None:  # passages have no words of their own
            tenants = tenants.difference(tenants_of(own)[1:])
        return [
            _request(one, _sparse(each), params, edge_filter(one.where, fields, tenants))
            for one, each in zip(searches, terms, strict=True)
        ]
    made: list[qe.QueryRequest] = []
    for one in searches:
        query = list(cast("Sequence[float]", one.query))
        where = edge_filter(one.where, fields, tenants)
        among = _params_of(shard, where, one.limit) if one.among_all else None
        made.append(_request(one, query, among, where))
    return made


def _request(one: Search, query: Any, params: qe.SearchParams | None, where: qe.Filter | None) -> qe.QueryRequest:
    return qe.QueryRequest(
        query=qe.Query.Nearest(query, using=one.using),
        limit=one.limit,
        filter=where,
        params=params,
        score_threshold=one.min_score,
        with_payload=list(one.payload) or False,
    )


def edge_filter(where: Filter, fields: frozenset[str], tenants: frozenset[str] | None = None) -> qe.Filter | None:
    """The filter as the engine takes it, for a shard with indexes of these fields; None where it lets all pass.

    No point has a value in another field. With `tenants`, all that the shard has points of, conditions that every
    point of these meets are left out.
    """
    # What names points is asked for once.
    make = _made if any(map(_names_points, chain(*where))) else _kept
    return make(where, fields, tenants)


def _names_points(one: Condition) -> bool:
    return isinstance(one, Keys) or (isinstance(one, AnyOf) and one.field == OF)


def _made(where: Filter, fields: frozenset[str], tenants: frozenset[str] | None) -> qe.Filter | None:
    must = tuple([one for one in where.must if not _admits(one, tenants)])
    return _filter(where._replace(must=must), fields) if must or where.should or where.must_not else None


# The engine's filters never change, and threads may share them.
_kept = lru_cache(maxsize=KEPT_FILTERS)(_made)


def _admits(one: Condition, tenants: frozenset[str] | None) -> bool:
    """Whether the condition is one on the tenant that lets all of these pass."""
    if tenants is None or not isinstance(one, Is | AnyOf) or one.field != "tenant":
        return False
    return tenants <= ({one.value} if isinstance(one, Is) else {*one.values})


def _of_tenant(tenant: str) -> qe.Filter:
    return _filter(Filter(must=(Is("tenant", tenant),)), ALWAYS_INDEXED)


def _filter(where: Filter, fields: frozenset[str]) -> qe.Filter:
    must, should, must_not = [[_condition(one, fields) for one in part] or None for part in where]
    return qe.Filter(must=must, should=should, must_not=must_not)


def _condition(one: Condition, fields: frozenset[str]) -> qe.ConditionType:
    match one:
        case Is() | AnyOf() | Within() if one.field not in fields:
            return _NEVER
        case OneToldTime() if not all(f"{TOLD}[].{each.field}" in fields for each in one.conditions):
            return _NEVER
        case Is():
            return qe.FieldCondition(one.field, match=qe.MatchValue(one.value))
        case AnyOf():
            return qe.FieldCondition(one.field, match=qe.MatchAny(cast("list[str]", list(one.values))))
        case Within():
            return qe.FieldCondition(one.field, range=qe.RangeFloat(gte=one.at_least, gt=one.above, lt=one.below))
        case Keys():
            return qe.HasIdCondition(set(one.keys))
        case OneToldTime():
            of_one = frozenset([each.field for each in one.conditions])
            return qe.NestedCondition(TOLD, _filter(Filter(must=one.conditions), of_one))
        case Filter():
            return _filter(one, fields)


def edge_point(one: IndexPoint) -> qe.Point:
    vectors: dict[str, qe.NamedVector] = {name: _sparse(terms) for name, terms in one.sparse.items()}
    vectors |= one.unit_vectors
    return qe.Point(one.key, vectors, one.payload)


# Measured with up to 110,000 memories (the page Figures). Each finds at least .98 of the exact first hundred.
_EF_OF_A_PART, _EF_OF_ALL = 200, 500
# So many vectors are scanned in the time that a candidate takes in the graph, with ACORN and without.
_SCANNED_OF_A_PART, _SCANNED_OF_ALL = 80, 20
_NEARLY_ALL = 0.8


def _params_of(shard: qe.EdgeShard, wanted: qe.Filter | None, limit: int) -> qe.SearchParams:
    """The parameters of a search for `limit` points that the filter lets pass. Both counts are estimates: 3 us."""
    matching = shard.count(qe.CountRequest(exact=False, filter=wanted))
    if matching >= _NEARLY_ALL * shard.count(qe.CountRequest(exact=False)):
        ef = max(limit, _EF_OF_ALL)
        is_scanned = matching <= _SCANNED_OF_ALL * ef
        return qe.SearchParams(exact=True) if is_scanned else qe.SearchParams(hnsw_ef=ef)
    ef = max(limit, _EF_OF_A_PART)
    if matching <= _SCANNED_OF_A_PART * ef:
        return qe.SearchParams(exact=True)
    return qe.SearchParams(hnsw_ef=ef, acorn=qe.AcornSearchParams(enable=True, max_selectivity=1.0))


def _sparse(terms: SparseTerms) -> qe.SparseVector:
    return qe.SparseVector(list(terms.indices), list(terms.values))
