"""An in-memory BM25 index, for trying other BM25 constants than the index's.

It has the index's terms and its idf, that of Qdrant: ln(1 + (N - n + 0.5) / (n + 0.5)) over the
memories of the tenant that is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orion_recall.index.text_forms import context_form, keyword_form
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Scope


class KeywordIndex:
    """Postings of memories (`text`) and of turns with their neighbours (`context`), as the keyword source searches.

    Filters by tenant, session and user: a judged query has no other scope.
    """

    kind = "index"
    damage: str | None = None
    stalled: str | None = None

    def __init__(self, changes: Sequence[Change], sparse: SparseEncoder) -> None:
        memories, mean_of = [change.memory for change in changes], sparse.weights.mean_of
        self._keys = np.array([memory_key(memory.tenant, memory.id) for memory in memories], dtype=np.int64)
        names = sorted({memory.tenant for memory in memories})
        self._tenants = {name: number for number, name in enumerate(names)}
        self._tenant_of = np.array([self._tenants[memory.tenant] for memory in memories], dtype=np.int64)
        self._session_of = np.array([memory.session_id for memory in memories], dtype=object)
        self._user_of = np.array([memory.user_id for memory in memories], dtype=object)
        self._postings = {
            "text": _Postings(
                [sparse.encode_document(keyword_form(one), mean_of(one.tenant, "text")) for one in memories]
            ),
            "context": _Postings(
                [
                    sparse.encode_document(context_form(one), mean_of(one.memory.tenant, "context"))
                    for one in changes
                ]
            ),
        }

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        """No hits: this index has no vectors."""
        return []

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        """BM25 above zero, best first: a list for each of `using`."""
        tenant = self._tenants.get(scope.tenant, -1)
        own = self._tenant_of == tenant
        if scope.session_id is not None:
            own &= self._session_of == scope.session_id
        if scope.user_id is not None:
            own &= self._user_of == scope.user_id
        return [self._best(self._postings[name].scores(terms, own), own, limit) for name in using]

    def _best(
        self, scores: npt.NDArray[np.float64], own: npt.NDArray[np.bool_], limit: int
    ) -> list[tuple[int, float]]:
        found = np.flatnonzero((scores > 0) & own)
        order = found[np.lexsort((self._keys[found], -scores[found]))][:limit]
        return list(zip(self._keys[order].tolist(), scores[order].tolist(), strict=True))


class _Postings:
    """The documents of each term, with its weights there."""

    def __init__(self, documents: Sequence[SparseTerms]) -> None:
        places: dict[int, list[int]] = {}
        weights: dict[int, list[float]] = {}
        for place, document in enumerate(documents):
            for term, weight in zip(document.indices, document.values, strict=True):
                places.setdefault(term, []).append(place)
                weights.setdefault(term, []).append(weight)
        self._count = len(documents)
        self._of = {
            term: (np.array(found, dtype=np.int64), np.array(weights[term], dtype=np.float64))
            for term, found in places.items()
        }

    def scores(self, terms: SparseTerms, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """The BM25 of every document, by how many of the tenant's `own` documents have a term."""
        scores, count = np.zeros(self._count), int(own.sum())
        for term, weight in zip(terms.indices, terms.values, strict=True):
            if (found := self._of.get(term)) is not None:
                places, weights = found
                with_it = int(own[places].sum())
                idf = math.log(1 + (count - with_it + 0.5) / (with_it + 0.5))
                scores[places] += weight * idf * weights
        return scores
