"""How rare a word is among a tenant's memories: counted by the engine once, then kept up to date with writes.

The engine can count for each query, by a filter: that takes as long as the tenant is large (2.5 ms of CPU at 99,000
memories), and common words come in every other question. So the document frequency of a term is asked for once, and
writes add to it and take from it. A query then brings its own idf, and the engine is asked to count over no points
at all, which costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import qdrant_edge as qe

from orion_recall.index.points import SPARSE_VECTORS, IndexPoint
from orion_recall.models.sparse import SparseTerms

NO_POINTS = qe.SearchParams(idf=qe.IdfParams(qe.Filter(must=[qe.HasIdCondition(set())])))
"""Counts over no points: every term has the same idf."""
MOST_TERMS = 100_000
"""Terms whose frequencies are kept, about 10 MB; with one more all are counted anew."""
MOST_DOCUMENTS = 2_000_000
"""Of a larger tenant the engine counts for each query: single floats are too coarse to read its counts from."""
FROM_POINTS = 20_000
"""In a smaller index the engine counts for each query: that takes no longer than to find out what is not known."""

_Floats = npt.NDArray[np.float32]
_RARE = 100
"""A term with fewer documents is counted by finding all of them."""
_HALF, _ONE = np.float32(0.5), np.float32(1)
_OF_NONE = np.log(np.float32(2))
"""The idf that the engine gives to every term where it counts over no points."""
_SURE = 0.3


@dataclass(slots=True)
class _Corpus:
    """The documents of a tenant that have one of the sparse vectors, and by term those that hold it."""

    documents: int
    with_term: dict[int, int] = field(default_factory=dict[int, int])


Corpora = Mapping[str, _Corpus]


class DocumentFrequencies:
    """The document frequencies of a shard's terms, by tenant and sparse vector. Thread-safe."""

    def __init__(self, most: int = MOST_TERMS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of: dict[str, dict[str, _Corpus]] = {}
        self._kept = self._writing = self._writes = 0

    def weighted(
        self, shard: qe.EdgeShard, tenant: str, terms: SparseTerms, using: Sequence[str]
    ) -> list[SparseTerms] | None:
        """The query's terms with their idf among the tenant's documents, for each of `using`; ask with `NO_POINTS`.

        Asks the shard for what is not known. None where the engine should count for that query.
        """
        if shard.info().points_count < FROM_POINTS:
            return None
        with self._lock:
            known = {name: self._known(tenant, name, terms.indices) for name in using}
            missing = {
                name: [term for term in terms.indices if corpus is None or term not in corpus.with_term]
                for name, corpus in known.items()
            }
            is_writing, before = self._writing, self._writes
        corpora: dict[str, _Corpus] = {name: corpus for name, corpus in known.items() if corpus is not None}
        if any(missing.values()):
            if (counted := _counted(shard, tenant, missing, corpora)) is None:
                return None
            if not is_writing:
                self._keep(tenant, counted, before)
            corpora = {
                name: _Corpus(one.documents, known_of.with_term | one.with_term if known_of else one.with_term)
                for name, one in counted.items()
                for known_of in [known[name]]
            }
        return [_with_idf(terms, corpora[name]) for name in using]

    @contextmanager
    def written(self, shard: qe.EdgeShard, gone: Iterable[int], points: Sequence[IndexPoint]) -> Generator[None]:
        """The points are written and the keys `gone` are deleted in the block: what is known follows."""
        with self._lock:
            self._writing += 1
            self._writes += 1
            tenants = set(self._of)
        try:
            about = [*gone, *(one.key for one in points if one.payload["tenant"] in tenants)]
            before = _held(shard, about) if tenants and about else []
            yield
        except BaseException:
            self.clear()
            raise
        else:
            after = {one.key: one for one in points}.values()
            self._move(before, [(str(one.payload["tenant"]), _indices(one.sparse)) for one in after], tenants)
        finally:
            with self._lock:
                self._writing -= 1
                self._writes += 1

    def clear(self) -> None:
        with self._lock:
            self._of, self._kept = {}, 0
            self._writes += 1

    def copy(self) -> DocumentFrequencies:
        """The same of a shard that holds the same: searches of the former shard no longer add to what is known."""
        copied = DocumentFrequencies(self._most)
        with self._lock:
            copied._of, copied._kept = self._of, self._kept
            self._of, self._kept = {}, 0
            self._writes += 1
        return copied

    def _known(self, tenant: str, name: str, terms: Sequence[int]) -> _Corpus | None:
        if (corpus := self._of.get(tenant, {}).get(name)) is None:
            return None
        counts = corpus.with_term
        return _Corpus(corpus.documents, {term: counts[term] for term in terms if term in counts})

    def _keep(self, tenant: str, counted: Corpora, before: int) -> None:
        with self._lock:
            if self._writes != before:
                return
            new = sum(len(one.with_term) for one in counted.values())
            if self._kept + new > self._most:
                self._of, self._kept = {}, 0
            of_tenant = self._of.setdefault(tenant, {})
            for name, one in counted.items():
                corpus = of_tenant.setdefault(name, _Corpus(one.documents))
                self._kept += len(one.with_term.keys() - corpus.with_term.keys())
                corpus.with_term |= one.with_term

    def _move(self, before: Sequence[_Document], after: Sequence[_Document], tenants: set[str]) -> None:
        """Takes away the documents that were there, and adds those that are; of a tenant new since then nothing."""
        with self._lock:
            for documents, step in ((before, -1), (after, 1)):
                for tenant, vectors in documents:
                    if tenant not in tenants:
                        continue
                    for name, corpus in self._of.get(tenant, {}).items():
                        if (indices := vectors.get(name)) is None:
                            continue
                        corpus.documents += step
                        counts = corpus.with_term
                        for term in counts.keys() & indices:
                            counts[term] += step


_Document = tuple[str, Mapping[str, frozenset[int]]]
"""A document's tenant, and the terms in each of its sparse vectors."""


def _indices(sparse: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    return {name: frozenset(one.indices) for name, one in sparse.items()}


def _held(shard: qe.EdgeShard, keys: Sequence[int]) -> list[_Document]:
    records = shard.retrieve(list(keys), ["tenant"], list(SPARSE_VECTORS))
    return [
        (str((one.payload or {})["tenant"]), _indices(cast("Mapping[str, Any]", one.vector or {})))
        for one in records
    ]


def _counted(
    shard: qe.EdgeShard, tenant: str, missing: Mapping[str, Sequence[int]], known: Corpora
) -> dict[str, _Corpus] | None:
    """The documents and what is missing; None where the engine's answer does not tell a number.

    Of a rare term all documents are found. Of another one the best score with the tenant's idf and that with the
    idf of no points have the idf as their ratio.
    """
    of_tenant = qe.FieldCondition("tenant", match=qe.MatchValue(tenant))
    corpora = {
        name: _Corpus(known[name].documents if name in known else _documents(shard, of_tenant, name))
        for name in missing
    }
    if any(corpus.documents > MOST_DOCUMENTS for corpus in corpora.values()):
        return None

    def best(asked: Sequence[tuple[str, int]], limit: int, params: qe.SearchParams) -> list[list[float]]:
        requests = [
            qe.QueryRequest(
                query=qe.Query.Nearest(qe.SparseVector([term], [1.0]), using=name),
                limit=limit,
                filter=qe.Filter(must=[of_tenant]),
                params=params,
            )
            for name, term in asked
        ]
        found = shard.query_batch(qe.QueryBatchRequest(requests))
        return [[one.score for one in each if one.score > 0] for each in found]

    asked = [(name, term) for name, terms in missing.items() for term in terms]
    common: dict[tuple[str, int], float] = {}
    for (name, term), scores in zip(asked, best(asked, _RARE, NO_POINTS), strict=True):
        corpora[name].with_term[term] = len(scores)
        if len(scores) == _RARE:
            common[name, term] = scores[0]
    if not common:
        return corpora
    counting = qe.SearchParams(idf=qe.IdfParams(qe.Filter(must=[of_tenant])))
    for (name, term), (score,) in zip(common, best([*common], 1, counting), strict=True):
        idf = score / common[name, term] * float(_OF_NONE)
        count = (corpora[name].documents + 1) / float(np.exp(idf)) - 0.5
        if abs(count - round(count)) > _SURE:
            return None
        corpora[name].with_term[term] = round(count)
    return corpora


def _documents(shard: qe.EdgeShard, of_tenant: qe.FieldCondition, name: str) -> int:
    with_vector = qe.Filter(must=[of_tenant, qe.HasVectorCondition(name)])
    return shard.count(qe.CountRequest(exact=True, filter=with_vector))


def _with_idf(terms: SparseTerms, corpus: _Corpus) -> SparseTerms:
    """Weights that with the idf of no points are those of the engine's own counting, in single floats as there."""
    counts = np.array([corpus.with_term[term] for term in terms.indices], np.float32)
    idf = np.log((np.float32(corpus.documents) - counts + _HALF) / (counts + _HALF) + _ONE)
    wanted = np.array(terms.values, np.float32) * idf
    return SparseTerms(indices=terms.indices, values=tuple(_divided(wanted).tolist()))


def _divided(wanted: _Floats) -> _Floats:
    """Numbers which times the idf of no points are the wanted ones, where single floats have such."""
    found = wanted / _OF_NONE
    for end in (np.inf, -np.inf):
        beside: _Floats = np.nextafter(found, np.float32(end))
        is_nearer = np.abs(beside * _OF_NONE - wanted) < np.abs(found * _OF_NONE - wanted)
        found[is_nearer] = beside[is_nearer]
    return found


# Measured with up to 110,000 memories (the page Figures). Each finds at least .98 of the exact first hundred.
_EF_OF_A_PART, _EF_OF_ALL = 200, 500
# So many vectors are scanned in the time that a candidate takes in the graph, with ACORN and without.
_SCANNED_OF_A_PART, _SCANNED_OF_ALL = 80, 20
_NEARLY_ALL = 0.8


def params_of(shard: qe.EdgeShard, wanted: qe.Filter, limit: int) -> qe.SearchParams:
    """The parameters of a search for `limit` points that the filter lets pass. Both counts are estimates: 3 us."""
    matching = shard.count(qe.CountRequest(exact=False, filter=wanted))
    return graph_search(matching, shard.count(qe.CountRequest(exact=False)), limit)


def graph_search(matching: int, held: int, limit: int) -> qe.SearchParams:
    """The parameters of a search for `limit` points among those that match, of all that are held."""
    if matching >= _NEARLY_ALL * held:
        ef = max(limit, _EF_OF_ALL)
        is_scanned = matching <= _SCANNED_OF_ALL * ef
        return qe.SearchParams(exact=True) if is_scanned else qe.SearchParams(hnsw_ef=ef)
    ef = max(limit, _EF_OF_A_PART)
    if matching <= _SCANNED_OF_A_PART * ef:
        return qe.SearchParams(exact=True)
    return qe.SearchParams(hnsw_ef=ef, acorn=qe.AcornSearchParams(enable=True, max_selectivity=1.0))
