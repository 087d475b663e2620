"""Plans the update of a graph for changed memories: queries for what the graph holds, then operations.

Nothing here talks to a store. A plan is a generator: it yields queries, is sent their rows, and returns operations.
So the embedded graph and a server are updated by the same code. The queries start from the given memories; only
what may have become stale is queried further, so new memories cost nothing extra.

Plans are idempotent: applying a change again, or after a partial write, leads to the same graph, because the
memories' facts are compared with the stored ones and an incomplete edge is counted anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

from rdflib import URIRef

from orion_recall.graph.projection.edge_changes import edge_changes
from orion_recall.graph.projection.entity_changes import entity_changes
from orion_recall.graph.projection.facts import MemoryFacts, OperationPlan, StoredFacts, select_in_batches
from orion_recall.graph.projection.lookups import Node, evidence_query, next_query, node_of, own_query
from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.projection.turns import Step, next_links, nodes_of, touched_turns
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import ORION, memory_triples
from orion_recall.values import Change, Memory


def plan_changes(changes: Sequence[Change]) -> OperationPlan:
    """The plan that brings the graph up to date with the changes."""
    last = nodes_of(changes)
    memories = {node: change.memory if change.memory.is_live else None for node, change in last.items()}
    return (yield from _projected(memories, last, touched_turns(last.values())))


def plan_removal(memories: Iterable[Node]) -> OperationPlan:
    """The plan that removes memories and everything that no other memory states."""
    nodes = list(dict.fromkeys(memories))
    return (yield from _projected(dict.fromkeys(nodes), {}, nodes))


def _projected(
    memories: Mapping[Node, Memory | None], changes: Mapping[Node, Change], turns: Sequence[Node]
) -> OperationPlan:
    held = yield from _held(list(memories))
    said = {node: MemoryFacts.of(memory, changes.get(node)) for node, memory in memories.items()}
    rows = yield from select_in_batches(next_query, turns)
    there = {(node_of(row, "from"), URIRef(row["to"])): None for row in rows}
    # Without a change (a removal) all links of the removed memories go.
    cut, told = next_links(list(changes.values()), there) if changes else (list(there), [])
    less, more = yield from entity_changes(said, held)
    edges = yield from edge_changes(said, held)
    # The order makes a partial write repairable. The memories' own nodes still say what was before while names are
    # removed and edges change, so the next attempt sees the difference; new names come after the nodes.
    return [*less, *edges, *_memories(memories, said, held), *_steps(cut, told), *more]


def _held(nodes: Sequence[Node]) -> Generator[str, Sequence[Row], dict[Node, StoredFacts]]:
    held = {node: StoredFacts() for node in nodes}
    for row in (yield from select_in_batches(own_query, nodes)):
        one = held[node_of(row)]
        one.present = True
        if "name" in row:
            one.names.add(row["name"])
        if "occurred" in row:
            one.time = float(row["occurred"])
    for row in (yield from select_in_batches(evidence_query, nodes)):
        held[node_of(row)].edges.add(URIRef(row["edge"]))
    return held


def _memories(
    memories: Mapping[Node, Memory | None], said: Mapping[Node, MemoryFacts], held: Mapping[Node, StoredFacts]
) -> Iterator[Operation]:
    for node, memory in memories.items():
        cleared = (node.iri,) if held[node].present else ()
        added = list(memory_triples(memory, said[node].voice)) if memory is not None else []
        if cleared or added:
            yield Operation(graph=node.graph, cleared=cleared, added=added)


def _steps(cut: Sequence[Step], told: Sequence[Step]) -> Iterator[Operation]:
    for graph in dict.fromkeys(node.graph for node, _ in (*cut, *told)):
        yield Operation(
            graph=graph,
            removed=[(node.iri, ORION.next, to) for node, to in cut if node.graph == graph],
            added=[(node.iri, ORION.next, to) for node, to in told if node.graph == graph],
        )
