"""Reads a whole graph page by page, so that neither side holds all of it in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from rdflib import URIRef
from rdflib.namespace import RDF

from orion_recall.graph.terms import Row, sparql_term
from orion_recall.graph.vocabulary import ORION, TENANTS

NODES_AT_ONCE, ENDS_AT_ONCE = 1_000, 20_000

Select = Callable[[str], Awaitable[Sequence[Row]]]


async def tenants(select: Select) -> list[URIRef]:
    """The tenants' graphs that hold memories, by name."""
    rows = await select(
        f"SELECT DISTINCT ?graph WHERE {{ GRAPH ?graph {{ ?memory a {ORION.Memory.n3()} }} "
        f'FILTER(STRSTARTS(STR(?graph), "{TENANTS}")) }}'
    )
    return sorted(URIRef(row["graph"]) for row in rows)


async def nodes(select: Select, graph: URIRef, kind: URIRef) -> AsyncIterator[dict[str, dict[str, list[str]]]]:
    """All nodes of a kind in the order of their IRIs, a page at a time: IRI -> property -> values."""
    after = ""
    while True:
        bound = f"FILTER(isIRI(?node) && STR(?node) > {_text(after)})" if after else "FILTER(isIRI(?node))"
        rows = await select(
            f"SELECT ?node ?property ?value WHERE {{ {{ SELECT ?node WHERE {{ GRAPH {graph.n3()} "
            f"{{ ?node a {kind.n3()} {bound} }} }} ORDER BY STR(?node) LIMIT {NODES_AT_ONCE} }} "
            f"GRAPH {graph.n3()} {{ ?node ?property ?value }} }}"
        )
        found: dict[str, dict[str, list[str]]] = {}
        for row in rows:
            found.setdefault(row["node"], {}).setdefault(row["property"], []).append(row["value"])
        if found:
            yield {iri: found[iri] for iri in sorted(found)}
        if len(found) < NODES_AT_ONCE:
            return
        after = max(found)


async def ends(select: Select, graph: URIRef) -> AsyncIterator[list[tuple[str, str]]]:
    """Subject and object of every edge, a page at a time."""
    after = ""
    while True:
        bound = f"FILTER(STR(?edge) > {_text(after)})" if after else ""
        rows = await select(
            f"SELECT ?edge ?subject ?object WHERE {{ GRAPH {graph.n3()} {{ ?edge {RDF.subject.n3()} ?subject ; "
            f"{RDF.object.n3()} ?object {bound} }} }} ORDER BY STR(?edge) LIMIT {ENDS_AT_ONCE}"
        )
        if rows:
            yield [(row["subject"], row["object"]) for row in rows]
        if len(rows) < ENDS_AT_ONCE:
            return
        after = rows[-1]["edge"]


async def count(select: Select, graph: URIRef, kind: URIRef) -> int:
    """The number of nodes of a kind."""
    (row,) = await select(
        f"SELECT (COUNT(?node) AS ?count) WHERE {{ GRAPH {graph.n3()} {{ ?node a {kind.n3()} }} }}"
    )
    return int(row["count"])


def _text(iri: str) -> str:
    """An IRI's text as a literal."""
    return f"STR({sparql_term(URIRef(iri))})"
