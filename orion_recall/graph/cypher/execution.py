"""Executes a Cypher query on a tenant's graph: parse, look names up, compile, select, read the rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.cypher.parser import parse
from orion_recall.graph.cypher.semantics import Semantics
from orion_recall.graph.cypher.similar import SimilarEntities
from orion_recall.graph.cypher.similar_memories import SimilarMemories
from orion_recall.graph.cypher.to_sparql import Column, Compiled, KnownNames, compile_query
from orion_recall.graph.cypher.tree import comparisons
from orion_recall.graph.tenant_graph import Queryable, TenantGraph

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
    *,
    memories: SimilarMemories | None = None,
    timeout_s: float = 10.0,
) -> QueryResult:
    """The result of a Cypher query. Without `memories` no memory is SIMILAR to a text.

    GraphQueryError for an invalid query, SourceError when the graph cannot be queried, TransientSourceError when it
    takes longer than `timeout_s` seconds.
    """
    query = parse(text)
    graph = TenantGraph(store, tenant)
    asked = [one for condition in query.conditions for one in comparisons(condition) if isinstance(one.value, str)]
    names = [str(one.value) for one in asked if one.property == "name" and one.operator in ("=", "<>")]
    # Compiled once before any name is looked up, so that an invalid query costs one query to the graph.
    try:
        async with asyncio.timeout(timeout_s):
            relations = await graph.relations()
            compile_query(query, graph.graph, KnownNames(relations=relations))
            kinds = Semantics(query).kinds
            likenesses = dict.fromkeys(
                (kinds[one.variable], str(one.value)) for one in asked if one.operator == "SIMILAR"
            )
            known = KnownNames(
                relations=relations,
                named=await graph.named(names),
                similar={
                    one: await similar.similar_entities(one, tenant, MOST_SIMILAR)
                    for kind, one in likenesses
                    if kind == "entity"
                },
                similar_memories={
                    one: await memories.similar_memories(one, tenant, MOST_SIMILAR)
                    for kind, one in likenesses
                    if kind == "memory" and memories is not None
                },
            )
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
    if column.kind in ("property", "count"):
        return parts[""]
    return {"is": column.kind, **parts}


def _value(text: str | None, is_number: bool) -> str | float | None:
    if text is None or not is_number:
        return text
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
