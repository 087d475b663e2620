"""Memories with texts similar in meaning to a text, by their vectors, for the operator SIMILAR.

An index on a server is searched. An embedded one belongs to its worker alone: then memories that share a word with
the text are read from the graph, a bounded number of them, and their vectors are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rdflib import Literal

from orion_recall.graph.relation_words import stem
from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.terms import reading_rows, sparql_term
from orion_recall.graph.vocabulary import ORION, memory_iri
from orion_recall.interfaces import VectorIndex
from orion_recall.models.embedder import Embedder
from orion_recall.text.normal import content_words
from orion_recall.values import Scope

MOST_COMPARED = 200
LEAST_COSINE = 0.3
_MOST_WORDS = 16


class SimilarMemories(Protocol):
    """Finds memories by the similarity of their texts: IRIs, best first."""

    async def similar_memories(self, text: str, tenant: str, limit: int) -> Sequence[str]: ...


class IndexedMemories:
    """Similar memories from an index that this process may search."""

    def __init__(self, index: VectorIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def similar_memories(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Those with a cosine of `LEAST_COSINE` or more."""
        vector = (await self._embedder.embed_query(text)).tolist()
        found = await self._index.search_dense(vector, Scope(tenant=tenant), limit, LEAST_COSINE)
        return [str(memory_iri(key)) for key, _ in found]


class GraphMemories:
    """Similar memories among `MOST_COMPARED` of the graph that share a word with the text, the newest ones."""

    def __init__(self, store: Queryable, embedder: Embedder) -> None:
        self._store, self._embedder = store, embedder

    async def similar_memories(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Those with a cosine of `LEAST_COSINE` or more."""
        stems = list(dict.fromkeys(stem(word) for word in content_words(text)))[:_MOST_WORDS]
        if not stems:
            return []
        shares = " || ".join(f"CONTAINS(LCASE(?text), {sparql_term(Literal(one))})" for one in stems)
        rows = await TenantGraph(self._store, tenant).rows(
            f"{{ SELECT ?memory ?text WHERE {{ ?memory {ORION.content.n3()} ?text FILTER({shares}) "
            f"OPTIONAL {{ ?memory {ORION.occurred.n3()} ?ts }} }} ORDER BY DESC(?ts) ?memory "
            f"LIMIT {MOST_COMPARED} }}"
        )
        with reading_rows():
            texts = {row["memory"]: row["text"] for row in rows}
        if not texts:
            return []
        wanted = await self._embedder.embed_query(text)
        vectors = await self._embedder.embed_documents(list(texts.values()))
        cosines = {iri: float(vector @ wanted) for iri, vector in zip(texts, vectors, strict=True)}
        ordered = sorted(cosines, key=lambda iri: (-cosines[iri], iri))
        return [iri for iri in ordered if cosines[iri] >= LEAST_COSINE][:limit]
