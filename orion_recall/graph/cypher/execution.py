"""Executes a Cypher query on a tenant's graph: parse, look names up, compile, select, read the rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rdflib import Literal

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.cypher.syntax import parse
from orion_recall.graph.cypher.to_sparql import Column, Compiled, Kind, KnownNames, compile_query, kinds_of
from orion_recall.graph.relation_words import stem
from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import ORION, entity_iri, memory_iri, reading_rows, sparql_term
from orion_recall.interfaces import EntityFinder, EntityLikeness, VectorIndex
from orion_recall.models.embedder import Embedder
from orion_recall.text.normal import content_words, words
from orion_recall.values import Scope

MOST_COMPARED = 20_000
_LEAST_LIKE = 0.34
_NEAR_BEST = 0.4
_LEAST_COSINE = 0.5


class SimilarEntities(Protocol):
    """Finds entities by the similarity of their names: IRIs, best first."""

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]: ...


class IndexedEntities:
    """Similar entities from the index: by the words of their names, then by the vectors of their names."""

    def __init__(self, finder: EntityFinder, meaning: EntityLikeness) -> None:
        self._finder, self._meaning = finder, meaning

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Entities with two fifths of the best score by words or more, then those with a cosine of 0.5 or more."""
        found = await self._finder.find_entities(text, tenant, limit)
        best = max((score for _, score in found), default=0.0)
        by_words = [label for label, score in found if score >= best * _NEAR_BEST]
        try:
            meant = await self._meaning.entities_like(text, tenant, limit)
        except SourceError:
            if not by_words:
                raise  # the next finder may answer
            meant = ()
        by_meaning = [label for label, cosine in meant if cosine >= _LEAST_COSINE]
        return list(dict.fromkeys(str(entity_iri(label)) for label in (*by_words, *by_meaning)))[:limit]


class GraphEntities:
    """Similar entities from the graph: names of the first 20,000 entities in the engine's order are compared."""

    def __init__(self, store: Queryable) -> None:
        self._store = store

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Entities that share a stem with the text, or many of its letters."""
        labels = await TenantGraph(self._store, tenant).all_labels(MOST_COMPARED)
        scored = [(likeness(text, label), iri) for iri, label in labels.items()]
        return [iri for score, iri in sorted(scored, key=lambda one: (-one[0], one[1])) if score >= _LEAST_LIKE][
            :limit
        ]


class FirstAvailable:
    """Uses the first finder that works; `told` is called with the error of each that does not."""

    def __init__(self, finders: Sequence[SimilarEntities], *, told: Callable[[SourceError], None]) -> None:
        assert finders
        self._finders, self._told = finders, told

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """As the first finder that works; SourceError when the last one fails, too."""
        *others, last = self._finders
        for finder in others:
            try:
                return await finder.similar_entities(text, tenant, limit)
            except SourceError as error:
                self._told(error)
        return await last.similar_entities(text, tenant, limit)


def likeness(one: str, other: str) -> float:
    """The similarity of two names in [0, 1]: the greater of the overlap of stems and that of letter trigrams."""
    stems, others = _stems(one), _stems(other)
    shared = len(stems & others)
    by_words = shared / min(len(stems), len(others)) if shared else 0.0
    letters, other_letters = _letters(one), _letters(other)
    both = len(letters & other_letters)
    by_letters = 2 * both / (len(letters) + len(other_letters)) if both else 0.0
    return max(0.99 * by_words if stems != others else by_words, by_letters)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in (content_words(text) or words(text)))


def _letters(text: str) -> frozenset[str]:
    padded = f"  {' '.join(words(text))[:200]} "
    return frozenset(padded[place : place + 3] for place in range(len(padded) - 2))


MOST_READ = 200
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
    """Similar memories among `MOST_READ` of the graph that share a word with the text, the newest ones."""

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
            f"LIMIT {MOST_READ} }}"
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


MOST_SIMILAR = 50

Cell = str | float | None | Mapping[str, str | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows with a cell for each column; a whole entity, memory or relation is a mapping. `sparql` is what ran."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sparql: str


async def run_cypher(
    text: str,
    store: Queryable,
    tenant: str,
    similar: SimilarEntities,
    memories: SimilarMemories,
    *,
    timeout_s: float = 10.0,
) -> QueryResult:
    """The result of a Cypher query.

    GraphQueryError for an invalid query, SourceError when the graph cannot be queried, TransientSourceError when it
    takes longer than `timeout_s` seconds.
    """
    query, graph = parse(text), TenantGraph(store, tenant)
    kinds = kinds_of(query)
    names = [str(one.value) for one in query.comparisons if one.property == "name" and one.operator == "="]
    likenesses: set[tuple[Kind, str]] = {
        (kinds.get(one.variable, "entity"), str(one.value))
        for one in query.comparisons
        if one.operator == "SIMILAR"
    }
    # Compiled once before any name is looked up, so that an invalid query costs one query to the graph.
    try:
        async with asyncio.timeout(timeout_s):
            relations = await graph.relations()
            compile_query(query, graph.graph, KnownNames(relations=relations))
            found: dict[tuple[Kind, str], Sequence[str]] = {
                (kind, one): await (
                    similar.similar_entities(one, tenant, MOST_SIMILAR)
                    if kind == "entity"
                    else memories.similar_memories(one, tenant, MOST_SIMILAR)
                )
                for kind, one in likenesses
            }
            known = KnownNames(relations=relations, named=await graph.named(names), similar=found)
            compiled = compile_query(query, graph.graph, known)
            rows = await store.select(compiled.sparql)
    except TimeoutError as error:
        raise TransientSourceError(
            f"the query took longer than {timeout_s:g} s: name an entity, use fewer hops, or allow more time"
        ) from error
    return _answer(compiled, rows)


def _answer(compiled: Compiled, rows: Sequence[Mapping[str, str]]) -> QueryResult:
    try:
        cells = tuple(tuple(_cell(column, row) for column in compiled.columns) for row in rows)
    except ValueError as error:
        raise SourceError(
            "the graph holds text where a number belongs: it was not written by orion-recall"
        ) from error
    return QueryResult(
        columns=tuple(column.name for column in compiled.columns), rows=cells, sparql=compiled.sparql
    )


def _cell(column: Column, row: Mapping[str, str]) -> Cell:
    parts = {name: _value(row.get(variable), is_number) for name, (variable, is_number) in column.parts.items()}
    if column.kind == "property":
        return parts[""]
    return {"is": column.kind, **parts}


def _value(text: str | None, is_number: bool) -> str | float | None:
    if text is None or not is_number:
        return text
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
