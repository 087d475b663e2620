"""Exports a graph to files that other programs read: Turtle, N-Quads, JSON-LD, or two CSV files."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote

import pyoxigraph
from rdflib import URIRef
from rdflib.namespace import PROV, RDF, SKOS, XSD

from orion_recall.graph.exchange.paging import Select, ends, nodes
from orion_recall.graph.vocabulary import ORION, TENANTS, relation_label
from orion_recall.graph.walks.components import Components

Format = Literal["turtle", "nquads", "jsonld", "csv"]
NODE_COLUMNS: tuple[str, ...] = ("id", "label", "also", "edges", "tenant")
EDGE_COLUMNS: tuple[str, ...] = (
    "source", "relation", "target", "text", "weight", "first_seen", "last_seen", "told", "memories",
    "source_id", "target_id", "tenant",
)  # fmt: skip

# In this order a reader has the ends of an edge before the edge.
_KINDS = (ORION.Memory, SKOS.Concept, RDF.Property, RDF.Statement)
_FORMATS = {
    "turtle": pyoxigraph.RdfFormat.TURTLE,
    "nquads": pyoxigraph.RdfFormat.N_QUADS,
    "jsonld": pyoxigraph.RdfFormat.JSON_LD,
}
_PREFIXES = {"orion": str(ORION), "skos": str(SKOS), "prov": str(PROV), "rdf": str(RDF)}
_INTEGERS = frozenset(str(ORION[name]) for name in ("version", "weight"))
_DOUBLES = frozenset(str(ORION[name]) for name in ("occurred", "firstSeen", "lastSeen"))
_LINKS = frozenset(
    str(name)
    for name in (
        RDF.type, RDF.subject, RDF.predicate, RDF.object, PROV.wasDerivedFrom,
        *(ORION[name] for name in ("mentions", "spokenBy", "next", "refersTo", "about", "wordedBy")),
    )
)  # fmt: skip
_IDS_AT_ONCE = 1_000

Node = Mapping[str, Sequence[str]]
Advanced = Callable[[int], None]


def tenant_of(graph: URIRef) -> str:
    """The tenant of a graph, from its name."""
    return unquote(graph.removeprefix(TENANTS))


async def write_rdf(
    select: Select, graphs: Sequence[URIRef], form: Literal["turtle", "nquads", "jsonld"], out: IO[bytes],
    advanced: Advanced,
) -> None:  # fmt: skip
    """Writes every node of the graphs with all its properties; Turtle has no named graphs, so it takes only one.

    `advanced` is called with the number of nodes of each page.
    """
    assert form != "turtle" or len(graphs) == 1, "Turtle holds one graph"
    if form == "jsonld":
        out.write(b"[")
    first = True
    async for graph, page in _pages(select, graphs):
        name = pyoxigraph.NamedNode(graph)
        triples = [triple for iri, said in page.items() for triple in _triples(iri, said)]
        told = triples if form == "turtle" else [_quad(triple, name) for triple in triples]
        written = pyoxigraph.serialize(told, format=_FORMATS[form], prefixes=_PREFIXES)
        assert written is not None, "it is given back, not written"
        if form == "jsonld":
            # Every page is a list of nodes: what is between its brackets goes into the one list.
            written = (b"\n" if first else b",\n") + written.strip()[1:-1]
        out.write(written)
        first = False
        advanced(len(page))
    if form == "jsonld":
        out.write(b"\n]\n")


async def write_csv(select: Select, graphs: Sequence[URIRef], folder: Path, advanced: Advanced) -> None:
    """Writes `nodes.csv`, the entities, and `edges.csv`, the statements with their evidence, as UTF-8."""
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
                entities.writerows(_entity_row(iri, said, shape.degree(iri), graph) for iri, said in page.items())
                advanced(len(page))
            async for page in nodes(select, graph, RDF.Statement):
                ids = await _ids(select, graph, page.values())
                labels = await _labels(select, graph, page.values())
                told = await _windows(select, graph, ids)
                edges.writerows(_edge_row(said, ids, labels, told, graph) for said in page.values())
                advanced(len(page))


async def _pages(
    select: Select, graphs: Sequence[URIRef]
) -> AsyncIterator[tuple[URIRef, dict[str, dict[str, list[str]]]]]:
    for graph in graphs:
        for kind in _KINDS:
            async for page in nodes(select, graph, kind):
                yield graph, page


def _triples(iri: str, said: Node) -> Iterable[pyoxigraph.Triple]:
    subject = pyoxigraph.NamedNode(iri)
    for name in sorted(said):
        for value in sorted(said[name]):
            yield pyoxigraph.Triple(subject, pyoxigraph.NamedNode(name), _term(name, value))


def _quad(triple: pyoxigraph.Triple, graph: pyoxigraph.NamedNode) -> pyoxigraph.Quad:
    return pyoxigraph.Quad(triple.subject, triple.predicate, triple.object, graph)


def _term(name: str, value: str) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """A value as an RDF term; the property's name decides its type."""
    if name in _LINKS:
        return pyoxigraph.NamedNode(value)
    for names, kind in ((_INTEGERS, XSD.integer), (_DOUBLES, XSD.double)):
        if name in names:
            return pyoxigraph.Literal(value, datatype=pyoxigraph.NamedNode(kind))
    return pyoxigraph.Literal(value)


def _entity_row(iri: str, said: Node, edges: int, graph: URIRef) -> dict[str, Any]:
    return {
        "id": iri,
        "label": _one(said, SKOS.prefLabel),
        "also": json.dumps(sorted(said.get(str(SKOS.altLabel), ())), ensure_ascii=False),
        "edges": edges,
        "tenant": tenant_of(graph),
    }


def _edge_row(
    said: Node,
    ids: Mapping[str, str],
    labels: Mapping[str, str],
    told: Mapping[str, Sequence[str]],
    graph: URIRef,
) -> dict[str, Any]:
    source, target = _one(said, RDF.subject), _one(said, RDF.object)
    evidence = said.get(str(PROV.wasDerivedFrom), ())
    memories = [ids.get(iri, iri) for iri in evidence]
    return {
        "source": labels.get(source, source),
        "relation": relation_label(URIRef(_one(said, RDF.predicate))),
        "target": labels.get(target, target),
        "text": _one(said, ORION.text),
        "weight": _one(said, ORION.weight),
        "first_seen": _one(said, ORION.firstSeen),
        "last_seen": _one(said, ORION.lastSeen),
        "told": json.dumps(sorted({window for iri in evidence for window in told.get(iri, ())})),
        "memories": json.dumps(sorted(memories), ensure_ascii=False),
        "source_id": source,
        "target_id": target,
        "tenant": tenant_of(graph),
    }


async def _ids(select: Select, graph: URIRef, edges: Iterable[Node]) -> dict[str, str]:
    """The ids of the memories that are evidence, by IRI."""
    memories = sorted({iri for said in edges for iri in said.get(str(PROV.wasDerivedFrom), ())})
    return await look_up_values(select, graph, memories, URIRef(ORION.id))


async def _windows(select: Select, graph: URIRef, memories: Iterable[str]) -> dict[str, list[str]]:
    """The time windows that the memories tell (`graph.told_windows`), by IRI."""
    found: dict[str, list[str]] = {}
    for node, value in await _values_of(select, graph, sorted(memories), ORION.tells):
        found.setdefault(node, []).append(value)
    return found


async def _labels(select: Select, graph: URIRef, edges: Iterable[Node]) -> dict[str, str]:
    """The names of what the edges connect, by IRI."""
    both = sorted({_one(said, end) for said in edges for end in (RDF.subject, RDF.object)})
    return await look_up_values(select, graph, both, SKOS.prefLabel)


async def look_up_values(select: Select, graph: URIRef, iris: Sequence[str], name: URIRef) -> dict[str, str]:
    """One value of a property for each of the nodes that have it, by IRI."""
    return dict(await _values_of(select, graph, iris, name))


async def _values_of(select: Select, graph: URIRef, iris: Sequence[str], name: URIRef) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for start in range(0, len(iris), _IDS_AT_ONCE):
        values = " ".join(URIRef(iri).n3() for iri in iris[start : start + _IDS_AT_ONCE])
        rows = await select(
            f"SELECT ?node ?value WHERE {{ VALUES ?node {{ {values} }} GRAPH {graph.n3()} "
            f"{{ ?node {name.n3()} ?value }} }}"
        )
        found += [(row["node"], row["value"]) for row in rows]
    return found


def _one(said: Node, name: URIRef) -> str:
    return next(iter(said.get(str(name), ())), "")
