"""Changes of memories as operations on the graph: entities, edges, conversations.

A plan is a generator: it yields SPARQL queries, is sent their rows, and returns operations. What the memories state
now is compared with what the graph holds of them; only the difference is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.graph.projection.updates import Operation
from orion_recall.graph.vocabulary import (
    ORION,
    Edge,
    Row,
    Triple,
    all_entities,
    best_spelling,
    edge_of,
    edge_triples,
    entity_iri,
    entity_triples,
    event_time,
    memory_iri,
    memory_triples,
    relation_label,
    sparql_term,
    tenant_graph,
)
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, MergedName

_EVIDENCE, _NAMED, _NEXT = PROV.wasDerivedFrom, ORION.named.n3(), ORION.next
_OCCURRED = ORION.occurred.n3()
# The properties of an edge that are derived from its evidence.
COUNTED = {name: ORION[name] for name in ("weight", "text", "firstSeen", "lastSeen")}
_CONNECTS = {"subject": RDF.subject, "predicate": RDF.predicate, "object": RDF.object}
_LABELS = (SKOS.prefLabel, SKOS.altLabel, SKOS.hiddenLabel)
_QUERY_BATCH = 400

OperationPlan = Generator[str, Sequence[Row], list[Operation]]
_RowQuery = Generator[str, Sequence[Row], list[Row]]
T = TypeVar("T")


class Node(NamedTuple):
    """One node of one tenant's graph."""

    graph: URIRef
    iri: URIRef


def node_of(row: Row, name: str = "node") -> Node:
    return Node(URIRef(row["graph"]), URIRef(row[name]))


def run_plan(plan: OperationPlan, select: Callable[[str], Sequence[Row]]) -> list[Operation]:
    """The operations of a plan whose queries are answered synchronously."""
    try:
        query = next(plan)
        while True:
            query = plan.send(select(query))
    except StopIteration as end:
        return end.value


def plan_changes(changes: Sequence[Change]) -> OperationPlan:
    """The plan that brings the graph up to date with the changes; of each memory the last one counts."""
    last: dict[Node, Change] = {}
    for change in changes:
        node = _memory_node(change.memory.tenant, change.memory.id)
        last.pop(node, None)
        last[node] = change
    return (yield from _plan(last))


def plan_removal(memories: Iterable[Node]) -> OperationPlan:
    """The plan that removes memories and everything that no other memory states."""
    return (yield from _plan(dict.fromkeys(memories)))


@dataclass(slots=True, kw_only=True)
class _Facts:
    """The names, the time and the edges that a memory states, or of which the graph holds it as evidence.

    `present`: whether it is to be there, or is there. `voice` is the speaker's name after merges, `merged` are the
    entities that other names were merged into.
    """

    present: bool = False
    names: set[str] = field(default_factory=set[str])
    time: float | None = None
    edges: dict[URIRef, Edge | None] = field(default_factory=dict[URIRef, "Edge | None"])
    voice: str | None = None
    merged: tuple[MergedName, ...] = ()


_AllFacts = Mapping[Node, _Facts]


def _plan(changes: Mapping[Node, Change | None]) -> OperationPlan:
    """Of the memories of these nodes; one without a change, or whose memory is not live, is removed."""
    live = {node: one for node, one in changes.items() if one is not None and one.memory.is_live}
    said = {node: _stated(live[node]) if node in live else _Facts() for node in changes}
    held = yield from _held(list(changes))
    links = yield from _links(list(changes), live)
    less, more = yield from _names(said, held)
    edges = yield from _edges(said, held)
    memories = (
        Operation(
            graph=node.graph,
            cleared=(node.iri,) if held[node].present else (),
            added=list(memory_triples(live[node].memory, one.voice)) if node in live else (),
        )
        for node, one in said.items()
        if held[node].present or node in live
    )
    # The order makes a partial write repairable. The memories' own nodes still say what was before while names are
    # removed and edges change, so the next attempt sees the difference; new names come after the nodes.
    return [*less, *edges, *memories, *links, *more]


def _stated(change: Change) -> _Facts:
    memory = change.memory
    voice = change.called(memory.speaker) if memory.speaker else memory.speaker
    edges = (edge_of(statement) for statement in memory.statements)
    return _Facts(
        present=True,
        names=set(all_entities(memory, voice)),
        time=event_time(memory),
        edges={edge.iri: edge for edge in edges},
        voice=voice,
        merged=change.merged,
    )


def _held(nodes: Sequence[Node]) -> Generator[str, Sequence[Row], dict[Node, _Facts]]:
    """The facts in the graph; a memory's edges may be there without its own node."""
    held = {node: _Facts() for node in nodes}
    for row in (yield from _in_batches(_own_query, nodes)):
        one = held[node_of(row)]
        one.present = True
        if "name" in row:
            one.names.add(row["name"])
        if "occurred" in row:
            one.time = float(row["occurred"])
    for row in (yield from _in_batches(_evidence_query, nodes)):
        held[node_of(row)].edges[URIRef(row["edge"])] = None
    return held


def _links(nodes: Sequence[Node], live: Mapping[Node, Change]) -> OperationPlan:
    """The operations that make the `next` links of the memories those that their changes give."""
    beside = {
        node: tuple(
            None if turn is None else _memory_node(change.memory.tenant, turn.id)
            for turn in (change.previous, change.following)
        )
        for node, change in live.items()
    }
    turns = dict.fromkeys((*nodes, *(turn for both in beside.values() for turn in both if turn is not None)))
    rows = yield from _in_batches(_next_query, list(turns))
    held = dict.fromkeys((node_of(row, "from"), node_of(row, "to")) for row in rows)
    kept = dict(held)
    for node in nodes:
        before, after = beside.get(node, (None, None))
        leaving, reaching = {node, before}, {node, after}
        kept = {link: None for link in kept if link[0] not in leaving and link[1] not in reaching}
        kept |= {(before, node): None} if before is not None else {}
        kept |= {(node, after): None} if after is not None else {}
    graphs = dict.fromkeys(start.graph for start, _ in (*held, *kept))
    return [
        Operation(
            graph=graph,
            removed=[
                (start.iri, _NEXT, end.iri)
                for start, end in held
                if start.graph == graph and (start, end) not in kept
            ],
            added=[(start.iri, _NEXT, end.iri) for start, end in kept if start.graph == graph],
        )
        for graph in graphs
    ]


def _names(
    said: _AllFacts, held: _AllFacts
) -> Generator[str, Sequence[Row], tuple[list[Operation], list[Operation]]]:
    """The operations that remove spellings which no memory uses any more, and those that add new ones."""
    given: dict[Node, set[str]] = defaultdict(set)
    merged: dict[Node, set[str]] = {}
    lost: dict[tuple[URIRef, str], Node] = {}
    for node, one in said.items():
        for name in one.names:
            given[Node(node.graph, entity_iri(name))].add(name)
            merged[Node(node.graph, entity_iri(name))] = set()
    for node, one in said.items():
        for name in one.merged:
            merged.setdefault(Node(node.graph, entity_iri(name.label)), set()).update(name.aliases)
        for text in sorted(held[node].names - one.names):
            entity = Node(node.graph, entity_iri(text))
            if text not in given.get(entity, ()):
                lost[node.graph, text] = entity
    still_named = partial(_still_named_query, without=[node.iri for node in said])
    for row in (yield from _in_batches(still_named, list(lost))):
        lost.pop((URIRef(row["graph"]), row["name"]), None)
    gone: dict[Node, set[str]] = defaultdict(set)
    for (_, text), entity in lost.items():
        gone[entity].add(text)
    asked = list(dict.fromkeys((*given, *gone)))
    there: dict[Node, set[str]] = defaultdict(set)
    hidden: dict[Node, set[str]] = defaultdict(set)
    for row in (yield from _in_batches(_spellings_query, asked)):
        found = hidden if row["property"] == str(SKOS.hiddenLabel) else there
        found[node_of(row)].add(row["value"])
    less, more = list[Operation](), list[Operation]()
    for entity in asked:
        left = there[entity] - gone[entity]
        whole, others = left | given[entity], merged.get(entity, hidden[entity])
        if left != there[entity]:
            less.append(_spelled(entity, left, hidden[entity], known=True))
        if whole != left or (whole and others != hidden[entity]):
            more.append(_spelled(entity, whole, others, known=bool(left)))
    return less, more


def _spelled(entity: Node, spellings: set[str], merged: set[str], *, known: bool) -> Operation:
    return Operation(
        graph=entity.graph,
        cleared=(entity.iri,) if known else (),
        added=list(entity_triples(entity.iri, spellings, merged)) if spellings else (),
    )


@dataclass(slots=True, kw_only=True)
class _EdgeChange:
    """One edge, which of the changed memories state it now (`after`), and which were its evidence `before`.

    `count` is the number of memories that state it after the change, `least` the least of their IRIs, and `times`
    have the first and the last of their times.
    """

    after: dict[URIRef, _Facts] = field(default_factory=dict[URIRef, _Facts])
    before: set[URIRef] = field(default_factory=set[URIRef])
    edge: Edge | None = None
    known: bool = False
    count: int = 0
    least: URIRef | None = None
    times: list[float] = field(default_factory=list[float])


def _edges(said: _AllFacts, held: _AllFacts) -> OperationPlan:
    """The operations that make the edges those that the memories state."""
    edges: dict[Node, _EdgeChange] = defaultdict(_EdgeChange)
    for node, one in said.items():
        for iri, edge in one.edges.items():
            found = edges[Node(node.graph, iri)]
            found.after[node.iri], found.edge = one, edge
        for iri in held[node].edges:
            edges[Node(node.graph, iri)].before.add(node.iri)
    for row in (yield from _in_batches(_edge_query, list(edges))):
        one, ends = edges[node_of(row)], [URIRef(row[name]) for name in _CONNECTS]
        one.known, one.edge = True, one.edge or Edge(*ends)
    used = {Node(node.graph, one.edge.relation) for node, one in edges.items() if one.after and one.edge}
    # An edge depends on the names and the times of its evidence.
    altered = {
        node.iri for node, one in said.items() if held[node].names != one.names or held[node].time != one.time
    }
    changed = {
        node: one
        for node, one in edges.items()
        if not one.known or one.before != one.after.keys() or not one.before.isdisjoint(altered)
    }
    yield from _count(changed, without=[node.iri for node in said])
    texts = yield from _texts(changed)
    operations = [
        Operation(
            graph=node.graph,
            cleared=(node.iri,) if one.known or one.before else (),
            properties=tuple(COUNTED.values()),
            removed=[(node.iri, _EVIDENCE, memory) for memory in sorted(one.before - one.after.keys())],
            added=[
                *(edge_triples(one.edge) if one.edge is not None else ()),
                *_counted(node.iri, one, texts[node]),
                *((node.iri, _EVIDENCE, memory) for memory in sorted(one.after.keys() - one.before)),
            ],
        )
        for node, one in changed.items()
        if node in texts
    ]
    return [*operations, *(yield from _without([node for node in changed if node not in texts], edges, used))]


def _count(edges: Mapping[Node, _EdgeChange], without: Sequence[URIRef]) -> Generator[str, Sequence[Row], None]:
    """Counts the evidence of the edges: what other memories state, and what the changed ones do."""
    known = [node for node, one in edges.items() if one.known or one.before]
    for row in (yield from _in_batches(partial(_count_query, without=without), known)):
        edges[node_of(row)].count, edges[node_of(row)].least = int(row["count"]), URIRef(row["least"])
    of_others = [node for node in known if edges[node].count]
    for row in (yield from _in_batches(partial(_times_query, without=without), of_others)):
        edges[node_of(row)].times = [float(row["first"]), float(row["last"])]
    for one in edges.values():
        one.count += len(one.after)
        one.least = min((*one.after, *((one.least,) if one.least is not None else ())), key=str, default=None)
        one.times += [memory.time for memory in one.after.values() if memory.time is not None]


def _texts(edges: Mapping[Node, _EdgeChange]) -> Generator[str, Sequence[Row], dict[Node, str]]:
    """The text of every edge that has evidence: in the words of the memory with the least IRI."""
    names: dict[Node, set[str]] = defaultdict(set)
    asked: dict[Node, None] = {}
    for node, one in edges.items():
        if one.least is None:
            continue
        if one.least in one.after:
            names[Node(node.graph, one.least)] = one.after[one.least].names
        else:
            asked[Node(node.graph, one.least)] = None
    for row in (yield from _in_batches(_own_query, [node for node in asked if node not in names])):
        if "name" in row:
            names[node_of(row)].add(row["name"])
    return {
        node: _edge_text(one.edge, names[Node(node.graph, one.least)])
        for node, one in edges.items()
        if one.least is not None and one.edge is not None
    }


def _edge_text(edge: Edge, names: Iterable[str]) -> str:
    """The edge as a sentence, its entities spelled as in these names of a memory."""
    spellings: dict[URIRef, list[str]] = defaultdict(list)
    for name in names:
        spellings[entity_iri(name)].append(name)
    start, end = (best_spelling(spellings.get(one, [str(one)])) for one in (edge.subject, edge.object))
    return f"{start} {relation_label(edge.relation)} {end}"


def _counted(iri: URIRef, one: _EdgeChange, text: str) -> Iterator[Triple]:
    yield iri, COUNTED["weight"], _number(one.count)
    yield iri, COUNTED["text"], Literal(text)
    if one.times:
        yield iri, COUNTED["firstSeen"], Literal(min(one.times))
        yield iri, COUNTED["lastSeen"], Literal(max(one.times))


@lru_cache(maxsize=256)
def _number(value: int) -> Literal:
    return Literal(value)


def _without(gone: Sequence[Node], edges: Mapping[Node, _EdgeChange], used: set[Node]) -> OperationPlan:
    """The operations that remove edges, and relations that no other edge has."""
    operations: list[Operation] = []
    for graph in dict.fromkeys(node.graph for node in gone):
        iris = [node.iri for node in gone if node.graph == graph]
        relations = (Node(graph, edge.relation) for iri in iris if (edge := edges[Node(graph, iri)].edge))
        unused = dict.fromkeys(relation for relation in relations if relation not in used)
        for row in (yield from _in_batches(partial(_still_used_query, without=iris), list(unused))):
            unused.pop(node_of(row))
        operations.append(Operation(graph=graph, cleared=(*iris, *(relation.iri for relation in unused))))
    return operations


def _memory_node(tenant: str, name: str) -> Node:
    return Node(tenant_graph(tenant), memory_iri(memory_key(tenant, name)))


def _in_batches(query: Callable[[Sequence[T]], str], about: Sequence[T]) -> _RowQuery:
    """All rows of a query about many things, sent for a few hundred of them at a time."""
    rows: list[Row] = []
    for start in range(0, len(about), _QUERY_BATCH):
        rows += yield query(about[start : start + _QUERY_BATCH])
    return rows


def _own_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, node, name, occurred) for those of the memories that are there; names may be absent."""
    return (
        f"SELECT ?graph ?node ?name ?occurred WHERE {{ GRAPH ?graph {{ "
        f"{_values('node', memories)} ?node {ORION.id.n3()} ?id OPTIONAL {{ ?node {_NAMED} ?name }} "
        f"OPTIONAL {{ ?node {_OCCURRED} ?occurred }} }} }}"
    )


def _evidence_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, node, edge): the edges that the memories are evidence of."""
    return (
        f"SELECT ?graph ?node ?edge WHERE {{ {_values('node', memories)} "
        f"GRAPH ?graph {{ ?edge {_EVIDENCE.n3()} ?node }} }}"
    )


def _next_query(memories: Iterable[Node]) -> str:
    """Rows of (graph, from, to): the `next` links from or to one of the memories."""
    known = list(memories)
    parts = (f"{{ {_values(end, known)} GRAPH ?graph {{ ?from {_NEXT.n3()} ?to }} }}" for end in ("from", "to"))
    return f"SELECT DISTINCT ?graph ?from ?to WHERE {{ {' UNION '.join(parts)} }}"


def _edge_query(edges: Iterable[Node]) -> str:
    """Rows of (graph, node, subject, predicate, object) for those of the edges that are there."""
    connects = " ; ".join(f"{term.n3()} ?{name}" for name, term in _CONNECTS.items())
    return f"SELECT * WHERE {{ GRAPH ?graph {{ {_values('node', edges)} ?node {connects} }} }}"


def _count_query(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node, count, least): an edge's evidence but for some memories, and its least IRI."""
    return (
        f"SELECT ?graph ?node (COUNT(?memory) AS ?count) (MIN(STR(?memory)) AS ?least) WHERE {{ "
        f"{_rest(edges, without)} }} GROUP BY ?graph ?node"
    )


def _times_query(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node, first, last): the times of an edge's evidence but for some memories."""
    return (
        f"SELECT ?graph ?node (MIN(?time) AS ?first) (MAX(?time) AS ?last) WHERE {{ "
        f"{_rest(edges, without)} GRAPH ?graph {{ ?memory {_OCCURRED} ?time }} }} GROUP BY ?graph ?node"
    )


def _spellings_query(entities: Iterable[Node]) -> str:
    """Rows of (graph, node, property, value): the entities' spellings, shown, other and merged into them."""
    # A VALUES of the properties would have engines go through all labels there are.
    return (
        f"SELECT ?graph ?node ?property ?value WHERE {{ {_values('node', entities)} "
        f"GRAPH ?graph {{ ?node ?property ?value }} "
        f"FILTER(?property IN ({', '.join(name.n3() for name in _LABELS)})) }}"
    )


def _still_named_query(names: Iterable[tuple[URIRef, str]], without: Sequence[URIRef]) -> str:
    """Rows of (graph, name): the names that some memory still gives, but for those left out."""
    values = " ".join(f"({graph.n3()} {sparql_term(Literal(name))})" for graph, name in names)
    return (
        f"SELECT ?graph ?name WHERE {{ VALUES (?graph ?name) {{ {values} }} "
        f"FILTER EXISTS {{ GRAPH ?graph {{ ?memory {_NAMED} ?name }} {_not_in('memory', without)} }} }}"
    )


def _still_used_query(relations: Iterable[Node], without: Sequence[URIRef]) -> str:
    """Rows of (graph, node): the relations that some edge still has, but for those left out."""
    return (
        f"SELECT ?graph ?node WHERE {{ {_values('node', relations)} FILTER EXISTS {{ GRAPH ?graph "
        f"{{ ?edge {RDF.predicate.n3()} ?node }} {_not_in('edge', without)} }} }}"
    )


def _rest(edges: Iterable[Node], without: Sequence[URIRef]) -> str:
    left_out = " ".join(iri.n3() for iri in without)
    evidence = f"{_values('node', edges)} GRAPH ?graph {{ ?node {_EVIDENCE.n3()} ?memory }}"
    return f"{evidence} MINUS {{ VALUES ?memory {{ {left_out} }} }}"


def _values(name: str, nodes: Iterable[Node]) -> str:
    return f"VALUES (?graph ?{name}) {{ {' '.join(f'({graph.n3()} {iri.n3()})' for graph, iri in nodes)} }}"


def _not_in(name: str, iris: Sequence[URIRef]) -> str:
    return f"FILTER(?{name} NOT IN ({', '.join(iri.n3() for iri in iris)}))" if iris else ""
