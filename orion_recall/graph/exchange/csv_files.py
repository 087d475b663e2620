"""The graph as CSV files, and page by page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rdflib import URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.graph.vocabulary import ORION, TENANTS, Row, relation_label, sparql_term

NODES_AT_ONCE, ENDS_AT_ONCE = 1_000, 20_000
_LOOKED_UP_AT_ONCE = 1_000
NODE_COLUMNS: tuple[str, ...] = ("id", "label", "also", "edges", "component", "tenant")
EDGE_COLUMNS: tuple[str, ...] = (
    "source", "relation", "target", "text", "weight", "first_seen", "last_seen", "told", "memories",
    "source_id", "target_id", "tenant",
)  # fmt: skip

Select = Callable[[str], Awaitable[Sequence[Row]]]
Node = Mapping[str, Sequence[str]]
"""The values of a node's properties."""


class Components:
    """Connected components, grown edge by edge (union-find), and the degrees of entities.

    Entities without an edge are a component each; an edge from an entity to itself counts once.
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self.degrees = Counter[str]()

    def add(self, edges: Iterable[tuple[str, str]]) -> None:
        for ends_of_edge in edges:
            self.degrees.update(set(ends_of_edge))
            first, other = sorted(map(self.component, ends_of_edge))
            self._parents[other] = first

    def component(self, entity: str) -> str:
        """The first by name of all entities of its component."""
        parents = self._parents
        parents.setdefault(entity, entity)
        while parents[entity] != entity:
            parents[entity] = entity = parents[parents[entity]]
        return entity


def tenant_of(graph: URIRef) -> str:
    return unquote(graph.removeprefix(TENANTS))


async def tenants(select: Select) -> list[URIRef]:
    """The tenants' graphs that hold memories, by name."""
    rows = await select(
        f"SELECT DISTINCT ?graph WHERE {{ GRAPH ?graph {{ ?memory a {ORION.Memory.n3()} }} "
        f'FILTER(STRSTARTS(STR(?graph), "{TENANTS}")) }}'
    )
    return sorted(URIRef(row["graph"]) for row in rows)


async def nodes(select: Select, graph: URIRef, kind: URIRef) -> AsyncIterator[dict[str, Node]]:
    """All nodes of a kind in the order of their IRIs, a page at a time, by IRI."""
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


async def values_of(select: Select, graph: URIRef, iris: Sequence[str], name: URIRef) -> dict[str, list[str]]:
    """The values of one property, by IRI, for those of the nodes that have it."""
    found: dict[str, list[str]] = {}
    for start in range(0, len(iris), _LOOKED_UP_AT_ONCE):
        wanted = " ".join(URIRef(iri).n3() for iri in iris[start : start + _LOOKED_UP_AT_ONCE])
        for row in await select(
            f"SELECT ?node ?value WHERE {{ VALUES ?node {{ {wanted} }} GRAPH {graph.n3()} "
            f"{{ ?node {name.n3()} ?value }} }}"
        ):
            found.setdefault(row["node"], []).append(row["value"])
    return found


async def write_csv(
    select: Select, graphs: Sequence[URIRef], folder: Path, advanced: Callable[[int], None]
) -> None:
    """Writes `nodes.csv`, the entities, and `edges.csv`, the statements with their evidence, as UTF-8.

    `advanced` is called with the number of nodes of each page.
    """
    with (
        (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as nodes_file,
        (folder / "edges.csv").open("w", encoding="utf-8", newline="") as edges_file,
    ):
        entities, edges = csv.DictWriter(nodes_file, NODE_COLUMNS), csv.DictWriter(edges_file, EDGE_COLUMNS)
        entities.writeheader()
        edges.writeheader()
        for graph in graphs:
            shape = Components()
            async for page in ends(select, graph):
                shape.add(page)
            async for page in nodes(select, graph, SKOS.Concept):
                entities.writerows(_entity_row(iri, node, shape, graph) for iri, node in page.items())
                advanced(len(page))
            async for page in nodes(select, graph, RDF.Statement):
                edges.writerows(await _edge_rows(select, graph, list(page.values())))
                advanced(len(page))


def _entity_row(iri: str, node: Node, shape: Components, graph: URIRef) -> dict[str, Any]:
    return {
        "id": iri,
        "label": _one(node, SKOS.prefLabel),
        "also": json.dumps(sorted(node.get(str(SKOS.altLabel), ())), ensure_ascii=False),
        "edges": shape.degrees[iri],
        "component": shape.component(iri),
        "tenant": tenant_of(graph),
    }


async def _edge_rows(select: Select, graph: URIRef, edges: Sequence[Node]) -> list[dict[str, Any]]:
    memories = sorted({iri for edge in edges for iri in edge.get(str(PROV.wasDerivedFrom), ())})
    ids = await values_of(select, graph, memories, URIRef(ORION.id))
    told = await values_of(select, graph, memories, ORION.tells)
    entities = sorted({_one(edge, end) for edge in edges for end in (RDF.subject, RDF.object)})
    labels = await values_of(select, graph, entities, SKOS.prefLabel)
    rows: list[dict[str, Any]] = []
    for edge in edges:
        source, target = _one(edge, RDF.subject), _one(edge, RDF.object)
        evidence = edge.get(str(PROV.wasDerivedFrom), ())
        rows.append({
            "source": labels.get(source, [source])[0],
            "relation": relation_label(URIRef(_one(edge, RDF.predicate))),
            "target": labels.get(target, [target])[0],
            "text": _one(edge, ORION.text),
            "weight": _one(edge, ORION.weight),
            "first_seen": _one(edge, ORION.firstSeen),
            "last_seen": _one(edge, ORION.lastSeen),
            "told": json.dumps(sorted({window for iri in evidence for window in told.get(iri, ())})),
            "memories": json.dumps(sorted(ids.get(iri, [iri])[0] for iri in evidence), ensure_ascii=False),
            "source_id": source,
            "target_id": target,
            "tenant": tenant_of(graph),
        })  # fmt: skip
    return rows


def _one(node: Node, name: URIRef) -> str:
    return next(iter(node.get(str(name), ())), "")


def _text(iri: str) -> str:
    return f"STR({sparql_term(URIRef(iri))})"
