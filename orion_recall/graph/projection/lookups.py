"""The queries that a plan sends before it changes a graph.

A node is (graph, IRI), so one query serves several tenants. Every query starts from given nodes: it costs as much
in a large graph as in a small one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.graph.terms import Row, sparql_term
from orion_recall.graph.vocabulary import ORION

_EVIDENCE = PROV.wasDerivedFrom.n3()
_NAMED, _NEXT, _OCCURRED = ORION.named.n3(), ORION.next.n3(), ORION.occurred.n3()
# The properties of an edge: what it connects, and what is derived from its evidence.
LABELS = (SKOS.prefLabel, SKOS.altLabel, SKOS.hiddenLabel)
_CONNECTS = {"subject": RDF.subject, "predicate": RDF.predicate, "object": RDF.object}
COUNTED = {name: ORION[name] for name in ("weight", "text", "wordedBy", "firstSeen", "lastSeen")}
EDGE_STATE = {**_CONNECTS, **COUNTED}


class Node(NamedTuple):
    """One node of one tenant's graph."""

    graph: URIRef
    iri: URIRef


class Name(NamedTuple):
    """A name as written, in one tenant's graph."""

    graph: URIRef
    text: str


def own_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, node, name, occurred) for those of the memories that are there; names may be absent."""
    return (
        f"SELECT ?graph ?node ?name ?occurred WHERE {{ GRAPH ?graph {{ "
        f"{_values('node', memories)} ?node {ORION.id.n3()} ?id OPTIONAL {{ ?node {_NAMED} ?name }} "
        f"OPTIONAL {{ ?node {_OCCURRED} ?occurred }} }} }}"
    )


def evidence_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, node, edge): the edges that the memories are evidence of."""
    return (
        f"SELECT ?graph ?node ?edge WHERE {{ {_values('node', memories)} "
        f"GRAPH ?graph {{ ?edge {_EVIDENCE} ?node }} }}"
    )


def next_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, from, to): the `next` links from or to one of the memories."""
    known = list(memories)
    parts = (f"{{ {_values(end, known)} GRAPH ?graph {{ ?from {_NEXT} ?to }} }}" for end in ("from", "to"))
    return f"SELECT DISTINCT ?graph ?from ?to WHERE {{ {' UNION '.join(parts)} }}"


def edge_query(edges: Iterable[Node]) -> str:
    """A row for each of the edges that are there: (graph, node) and `EDGE_STATE`, of which some may be absent."""
    connects = " ; ".join(f"{term.n3()} ?{name}" for name, term in _CONNECTS.items())
    counted = " ".join(f"OPTIONAL {{ ?node {term.n3()} ?{name} }}" for name, term in COUNTED.items())
    return (
        f"SELECT ?graph ?node {' '.join(f'?{name}' for name in EDGE_STATE)} WHERE {{ "
        f"GRAPH ?graph {{ {_values('node', edges)} ?node {connects} {counted} }} }}"
    )


def count_query(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node, count, least): an edge's evidence but for some memories, and its least IRI."""
    return (
        f"SELECT ?graph ?node (COUNT(?memory) AS ?count) (MIN(STR(?memory)) AS ?least) WHERE {{ "
        f"{_evidence(edges, without)} }} GROUP BY ?graph ?node"
    )


def times_query(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node, first, last): the times of an edge's evidence but for some memories."""
    return (
        f"SELECT ?graph ?node (MIN(?time) AS ?first) (MAX(?time) AS ?last) WHERE {{ "
        f"{_evidence(edges, without)} GRAPH ?graph {{ ?memory {_OCCURRED} ?time }} }} GROUP BY ?graph ?node"
    )


def spellings_query(entities: Iterable[Node]) -> str:
    """Rows of (graph, node, property, value): the entities' spellings, shown, other and merged into them."""
    # A VALUES of the properties would have engines go through all labels there are.
    return (
        f"SELECT ?graph ?node ?property ?value WHERE {{ {_values('node', entities)} "
        f"GRAPH ?graph {{ ?node ?property ?value }} "
        f"FILTER(?property IN ({', '.join(name.n3() for name in LABELS)})) }}"
    )


def still_named_query(names: Iterable[Name], without: Sequence[URIRef]) -> str:
    """Rows of (graph, name): the names that some memory still gives, but for those left out."""
    values = " ".join(f"({name.graph.n3()} {sparql_term(Literal(name.text))})" for name in names)
    return (
        f"SELECT ?graph ?name WHERE {{ VALUES (?graph ?name) {{ {values} }} "
        f"FILTER EXISTS {{ GRAPH ?graph {{ ?memory {_NAMED} ?name }} {_not_in('memory', without)} }} }}"
    )


def still_used_query(relations: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node): the relations that some edge still has, but for those left out."""
    return (
        f"SELECT ?graph ?node WHERE {{ {_values('node', relations)} FILTER EXISTS {{ GRAPH ?graph "
        f"{{ ?edge {RDF.predicate.n3()} ?node }} {_not_in('edge', without)} }} }}"
    )


def node_of(row: Row, name: str = "node") -> Node:
    """The node that a row is about."""
    return Node(URIRef(row["graph"]), URIRef(row[name]))


def _evidence(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    left_out = f" MINUS {{ VALUES ?memory {{ {_list(without)} }} }}" if without else ""
    return f"{_values('node', edges)} GRAPH ?graph {{ ?node {_EVIDENCE} ?memory }}{left_out}"


def _values(name: str, nodes: Iterable[Node]) -> str:
    return f"VALUES (?graph ?{name}) {{ {' '.join(f'({graph.n3()} {iri.n3()})' for graph, iri in nodes)} }}"


def _not_in(name: str, iris: Sequence[URIRef]) -> str:
    return f"FILTER(?{name} NOT IN ({', '.join(iri.n3() for iri in iris)}))" if iris else ""


def _list(iris: Iterable[URIRef]) -> str:
    return " ".join(iri.n3() for iri in iris)
