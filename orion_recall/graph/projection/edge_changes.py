"""Plans the changes of edges: which edges change, their new counts, and which are removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rdflib import URIRef

from orion_recall.graph.projection.edges import EdgeState, Evidence, edge_operation, edge_text
from orion_recall.graph.projection.facts import MemoryFacts, OperationPlan, StoredFacts, select_in_batches
from orion_recall.graph.projection.lookups import (
    Node,
    count_query,
    edge_query,
    node_of,
    own_query,
    still_used_query,
    times_query,
)
from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import Edge


@dataclass(slots=True)
class _EdgeChange:
    """One edge, and which of the changed memories state it now (`after`) and were its evidence `before`.

    `rest` is the stored evidence to which the new memories are added. Of an edge that is `unsure` it is recounted
    without any of the changed memories.
    """

    after: dict[URIRef, MemoryFacts] = field(default_factory=dict[URIRef, MemoryFacts])
    before: set[URIRef] = field(default_factory=set[URIRef])
    edge: Edge | None = None
    state: EdgeState | None = None
    unsure: bool = False
    rest: Evidence = field(default_factory=Evidence)

    @property
    def evidence(self) -> Evidence:
        """The edge's whole evidence after the change."""
        counted = set[URIRef]() if self.unsure else self.before
        return self.rest.including({iri: one.time for iri, one in self.after.items() if iri not in counted})


def edge_changes(said: Mapping[Node, MemoryFacts], held: Mapping[Node, StoredFacts]) -> OperationPlan:
    """The operations that make the edges those that the memories state.

    New evidence is added to the stored count; where evidence was lost or has changed, the rest is counted anew.
    """
    touched = _touched(said, held)
    rows: dict[Node, list[Row]] = defaultdict(list)
    for row in (yield from select_in_batches(edge_query, list(touched))):
        rows[node_of(row)].append(row)
    altered = {node.iri for node, one in said.items() if _is_altered(one, held[node])}
    again: dict[Node, _EdgeChange] = {}
    changed: dict[Node, _EdgeChange] = {}
    for node, one in touched.items():
        one.state = EdgeState.read(rows[node]) if node in rows else None
        if one.state is None:
            one.unsure = node in rows or bool(one.before)
        else:
            one.unsure = not one.before <= one.after.keys() or not one.before.isdisjoint(altered)
            one.edge = one.edge or one.state.edge
        if one.unsure:
            again[node] = one
        elif one.state is not None:
            one.rest = one.state.evidence
        if one.unsure or one.before != one.after.keys():
            changed[node] = one
    yield from _count(again, said)
    texts = yield from _texts(changed)
    gone = [node for node, one in changed.items() if one.evidence.count == 0]
    operations = [
        edge_operation(
            node.graph,
            node.iri,
            one.edge,
            known=one.state is not None or one.unsure,
            evidence=one.evidence,
            text=texts[node],
            gained=sorted(one.after.keys() - one.before),
            lost=sorted(one.before - one.after.keys()),
        )
        for node, one in changed.items()
        if node in texts
    ]
    return [*operations, *(yield from _without(gone, touched))]


def _touched(said: Mapping[Node, MemoryFacts], held: Mapping[Node, StoredFacts]) -> dict[Node, _EdgeChange]:
    touched: dict[Node, _EdgeChange] = defaultdict(_EdgeChange)
    for node, one in said.items():
        for iri, edge in one.edges.items():
            found = touched[Node(node.graph, iri)]
            found.after[node.iri], found.edge = one, edge
        for iri in held[node].edges:
            touched[Node(node.graph, iri)].before.add(node.iri)
    return touched


def _is_altered(said: MemoryFacts, held: StoredFacts) -> bool:
    """Whether the memory's names or time differ from the stored ones, which its edges depend on."""
    return held.present and (frozenset(held.names) != said.names or held.time != said.time)


def _count(
    edges: Mapping[Node, _EdgeChange], said: Mapping[Node, MemoryFacts]
) -> Generator[str, Sequence[Row], None]:
    """Sets `rest` of the edges: their evidence besides the changed memories."""
    without = [node.iri for node in said]
    first_last: dict[Node, tuple[float, float]] = {}
    for row in (yield from select_in_batches(partial(times_query, without=without), list(edges))):
        first_last[node_of(row)] = float(row["first"]), float(row["last"])
    for row in (yield from select_in_batches(partial(count_query, without=without), list(edges))):
        first, last = first_last.get(node_of(row), (None, None))
        edges[node_of(row)].rest = Evidence(
            count=int(row["count"]), least=URIRef(row["least"]), first=first, last=last
        )


def _texts(changed: Mapping[Node, _EdgeChange]) -> Generator[str, Sequence[Row], dict[Node, str]]:
    """The text of every edge that has evidence: in the words of the memory with the least IRI."""
    texts: dict[Node, str] = {}
    asked: dict[Node, list[Node]] = defaultdict(list)
    for node, one in changed.items():
        least = one.evidence.least
        if least is None or one.edge is None:
            continue
        if least in one.after:
            texts[node] = edge_text(one.edge, one.after[least].names)
        elif one.state is not None and one.state.evidence.least == least:
            texts[node] = one.state.text
        else:
            asked[Node(node.graph, least)].append(node)
    names: dict[Node, set[str]] = defaultdict(set)
    for row in (yield from select_in_batches(own_query, list(asked))):
        if "name" in row:
            names[node_of(row)].add(row["name"])
    for memory, nodes in asked.items():
        texts |= {node: edge_text(edge, names[memory]) for node in nodes if (edge := changed[node].edge)}
    return texts


def _without(gone: Iterable[Node], touched: Mapping[Node, _EdgeChange]) -> OperationPlan:
    """The operations that remove edges, and relations that no other edge has."""
    edges: dict[URIRef, list[URIRef]] = defaultdict(list)
    relations: dict[Node, None] = {}
    for node in gone:
        edges[node.graph].append(node.iri)
        if (edge := touched[node].edge) is not None:
            relations[Node(node.graph, edge.relation)] = None
    for node, one in touched.items():
        if one.after and one.edge is not None:
            relations.pop(Node(node.graph, one.edge.relation), None)
    operations: list[Operation] = []
    for graph, iris in edges.items():
        unused = {relation.iri: None for relation in relations if relation.graph == graph}
        asked = [Node(graph, relation) for relation in unused]
        for row in (yield from select_in_batches(partial(still_used_query, without=iris), asked)):
            unused.pop(URIRef(row["node"]))
        operations.append(Operation(graph=graph, cleared=(*iris, *unused)))
    return operations
