"""The graph as CSV files, read page by page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rdflib import URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.atomic_file import whole_text
from orion_recall.graph.vocabulary import ORION, PREFIXES, TENANTS, Row, relation_label, sparql_term

NODES_AT_ONCE = 1_000
NODE_COLUMNS: tuple[str, ...] = ("id", "label", "also", "edges", "component", "tenant")
EDGE_COLUMNS: tuple[str, ...] = (
    "source", "relation", "target", "text", "weight", "first_seen", "last_seen", "told", "memories",
    "source_id", "target_id", "tenant",
)  # fmt: skip

_OWN = {"text": ORION.text, "weight": ORION.weight, "first_seen": ORION.firstSeen, "last_seen": ORION.lastSeen}

Select = Callable[[str], Awaitable[Sequence[Row]]]
Node = Mapping[str, Sequence[str]]
"""The values of a node's properties."""


class Components:
    """Connected components, grown edge by edge (union-find), and the degrees of entities."""

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


async def _pages(select: Select, graph: URIRef, kind: str) -> AsyncIterator[Mapping[str, Node]]:
    """All nodes of a kind in the order of their IRIs, a page at a time, by IRI."""
    after = ""
    while True:
        bound = f"&& STR(?node) > STR({sparql_term(URIRef(after))})" if after else ""
        page = f"SELECT ?node WHERE {{ ?node a {kind} FILTER(isIRI(?node) {bound}) }}"
        found = await _nodes(select, graph, f"{{ {page} ORDER BY STR(?node) LIMIT {NODES_AT_ONCE} }}")
        if found:
            yield {iri: found[iri] for iri in sorted(found)}
        if len(found) < NODES_AT_ONCE:
            return
        after = max(found)


async def _nodes(select: Select, graph: URIRef, pattern: str, properties: str = "") -> Mapping[str, Node]:
    """The values of the properties (all, where none are named) of the nodes of a pattern, by IRI."""
    only = f"FILTER(?property IN ({properties}))" if properties else ""
    rows = await select(
        f"{PREFIXES}SELECT ?node ?property ?value WHERE {{ GRAPH {graph.n3()} {{ {pattern} "
        f"?node ?property ?value {only} }} }}"
    )
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        found.setdefault(row["node"], {}).setdefault(row["property"], []).append(row["value"])
    return found


async def write_csv(
    select: Select, graphs: Sequence[URIRef], folder: Path, advanced: Callable[[int], None]
) -> None:
    """Writes `nodes.csv` and `edges.csv` as UTF-8; `advanced` is called with the number of nodes of each page."""
    with (
        whole_text(folder / "nodes.csv") as nodes_file,
        whole_text(folder / "edges.csv") as edges_file,
    ):
        entities, edges = csv.writer(nodes_file), csv.DictWriter(edges_file, EDGE_COLUMNS)
        entities.writerow(NODE_COLUMNS)
        edges.writeheader()
        for graph in graphs:
            shape, tenant = Components(), tenant_of(graph)
            async for page in _pages(select, graph, "rdf:Statement"):
                shape.add((_one(edge, RDF.subject), _one(edge, RDF.object)) for edge in page.values())
                edges.writerows(row | {"tenant": tenant} for row in await _edge_rows(select, graph, page.values()))
                advanced(len(page))
            async for page in _pages(select, graph, "skos:Concept"):
                for iri, node in page.items():
                    label, also = _one(node, SKOS.prefLabel), sorted(node.get(str(SKOS.altLabel), ()))
                    listed = json.dumps(also, ensure_ascii=False)
                    entities.writerow((iri, label, listed, shape.degrees[iri], shape.component(iri), tenant))
                advanced(len(page))


async def _edge_rows(select: Select, graph: URIRef, edges: Collection[Node]) -> list[dict[str, Any]]:
    names = (RDF.subject, RDF.object, PROV.wasDerivedFrom)
    iris = sorted({iri for edge in edges for name in names for iri in edge.get(str(name), ())})
    known: dict[str, Node] = {}
    for start in range(0, len(iris), NODES_AT_ONCE):
        wanted = " ".join(URIRef(iri).n3() for iri in iris[start : start + NODES_AT_ONCE])
        known |= await _nodes(select, graph, f"VALUES ?node {{ {wanted} }}", "o:id, o:tells, skos:prefLabel")
    rows: list[dict[str, Any]] = []
    for edge in edges:
        source, target = _one(edge, RDF.subject), _one(edge, RDF.object)
        evidence = {iri: known.get(iri, {}) for iri in edge.get(str(PROV.wasDerivedFrom), ())}
        told = {window for memory in evidence.values() for window in memory.get(str(ORION.tells), ())}
        ids = [_one(memory, URIRef(ORION.id)) or iri for iri, memory in evidence.items()]
        rows.append({
            "source": _one(known.get(source, {}), SKOS.prefLabel) or source,
            "relation": relation_label(URIRef(_one(edge, RDF.predicate))),
            "target": _one(known.get(target, {}), SKOS.prefLabel) or target,
            **{name: _one(edge, own) for name, own in _OWN.items()},
            "told": json.dumps(sorted(told)),
            "memories": json.dumps(sorted(ids), ensure_ascii=False),
            "source_id": source,
            "target_id": target,
        })  # fmt: skip
    return rows


def _one(node: Node, name: URIRef) -> str:
    return next(iter(node.get(str(name), ())), "")
