"""Plans of graph changes: what is looked up before them, and the operations that they are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import NamedTuple, TypeVar

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.graph.vocabulary import ORION, Edge, Row, Triple, all_entities, edge_of, event_time, sparql_term
from orion_recall.values import Change, Memory, MergedName

_TOGETHER = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One atomic write: first properties of nodes are cleared, then triples removed, then triples added.

    `cleared` are nodes that lose the given `properties`, or all their properties when none is given.
    """

    graph: URIRef
    cleared: Sequence[URIRef] = ()
    properties: Sequence[URIRef] = ()
    removed: Sequence[tuple[URIRef, URIRef, URIRef]] = ()
    added: Sequence[Triple] = ()


def rendered(operations: Iterable[Operation], condition: str | None = None) -> Iterator[str]:
    """The operations as SPARQL updates, in order. With a condition they do nothing unless it holds.

    Consecutive operations that only add triples to one graph are merged: an engine takes them in half the time.
    """
    waiting: list[str] = []
    length = 0
    graph: URIRef | None = None
    for operation in operations:
        if waiting and (graph != operation.graph or operation.cleared or operation.removed or length > _TOGETHER):
            yield _statement("INSERT", graph, waiting, condition)
            waiting, length = [], 0
        graph = operation.graph
        if operation.cleared or operation.removed:
            yield ";\n".join(_statements(operation, condition))
        elif operation.added:
            waiting.append(_triples(operation.added))
            length += len(waiting[-1])
    if waiting:
        yield _statement("INSERT", graph, waiting, condition)


def _statements(operation: Operation, condition: str | None) -> Iterator[str]:
    graph = operation.graph.n3()
    if operation.cleared:
        values = f"VALUES ?node {{ {' '.join(node.n3() for node in operation.cleared)} }}"
        if operation.properties:
            values += f" VALUES ?property {{ {' '.join(name.n3() for name in operation.properties)} }}"
        yield (
            f"DELETE {{ GRAPH {graph} {{ ?node ?property ?value }} }} WHERE {{ "
            f"{f'{condition} . ' if condition else ''}GRAPH {graph} {{ {values} ?node ?property ?value }} }}"
        )
    if operation.removed:
        yield _statement("DELETE", operation.graph, [_triples(operation.removed)], condition)
    if operation.added:
        yield _statement("INSERT", operation.graph, [_triples(operation.added)], condition)


def _statement(
    verb: OneOf["INSERT", "DELETE"], graph: URIRef | None, triples: Sequence[str], condition: str | None
) -> str:
    assert graph is not None, "triples are of a graph"
    told = f"{{ GRAPH {graph.n3()} {{ {' . '.join(triples)} }} }}"
    # INSERT DATA where there is no condition: twice as fast again.
    return f"{verb} DATA {told}" if condition is None else f"{verb} {told} WHERE {{ {condition} }}"


def _triples(triples: Iterable[tuple[URIRef, URIRef, URIRef | Literal]]) -> str:
    """The triples, consecutive ones of one subject abbreviated with a semicolon."""
    said: list[str] = []
    last: URIRef | None = None
    for subject, predicate, value in triples:
        if subject == last:
            said.append(f" ; {predicate.n3()} {sparql_term(value)}")
        else:
            said.append(f"{' . ' if said else ''}{subject.n3()} {predicate.n3()} {sparql_term(value)}")
        last = subject
    return "".join(said)


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


# Generators that yield SPARQL queries and are sent their rows. They return rows, or operations.
RowQuery = Generator[str, Sequence[Row], list[Row]]
OperationPlan = Generator[str, Sequence[Row], list[Operation]]

_QUERY_BATCH = 400
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """The names, the time and the edges that a memory states; nothing for a deleted one.

    `voice` is the speaker's name after merges, `merged` are the memory's entities that other names were merged
    into.
    """

    names: frozenset[str] = frozenset()
    time: float | None = None
    edges: Mapping[URIRef, Edge] = field(default_factory=dict[URIRef, Edge])
    voice: str | None = None
    merged: tuple[MergedName, ...] = ()

    @classmethod
    def of(cls, memory: Memory | None, change: Change | None = None) -> MemoryFacts:
        """The facts of a memory; its change has the merged names."""
        if memory is None:
            return cls()
        voice = change.called(memory.speaker) if change is not None and memory.speaker else memory.speaker
        edges = (edge_of(statement) for statement in memory.statements)
        return cls(
            names=all_entities(memory, voice),
            time=event_time(memory),
            edges={edge.iri: edge for edge in edges},
            voice=voice,
            merged=change.merged if change is not None else (),
        )


@dataclass(slots=True)
class StoredFacts:
    """The facts of a memory in the graph; its edges may be there without its own node."""

    present: bool = False
    names: set[str] = field(default_factory=set[str])
    time: float | None = None
    edges: set[URIRef] = field(default_factory=set[URIRef])


def select_in_batches(query: Callable[[Sequence[T]], str], about: Sequence[T]) -> RowQuery:
    """All rows of a query about many things, sent for a few hundred of them at a time."""
    rows: list[Row] = []
    for start in range(0, len(about), _QUERY_BATCH):
        rows += yield query(about[start : start + _QUERY_BATCH])
    return rows


def run_plan(plan: OperationPlan, select: Callable[[str], Sequence[Row]]) -> list[Operation]:
    """The operations of a plan whose queries are answered synchronously."""
    try:
        query = next(plan)
        while True:
            query = plan.send(select(query))
    except StopIteration as end:
        return end.value
