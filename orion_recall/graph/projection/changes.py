"""Changes of memories as operations on the graph: entities, edges, conversations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, SKOS

from orion_recall.graph.projection.plan import (
    COUNTED,
    MemoryFacts,
    Name,
    Node,
    Operation,
    OperationPlan,
    StoredFacts,
    count_query,
    edge_query,
    evidence_query,
    next_query,
    node_of,
    own_query,
    select_in_batches,
    spellings_query,
    still_named_query,
    still_used_query,
    times_query,
)
from orion_recall.graph.vocabulary import (
    ORION,
    Edge,
    Row,
    Triple,
    best_spelling,
    edge_triples,
    entity_iri,
    entity_triples,
    memory_iri,
    memory_triples,
    relation_label,
    tenant_graph,
)
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, Neighbour

_EVIDENCE = PROV.wasDerivedFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Memories that state one edge: their count, the least of their IRIs, and the first and last of their times."""

    count: int = 0
    least: URIRef | None = None
    first: float | None = None
    last: float | None = None

    def including(self, memories: Mapping[URIRef, float | None]) -> Evidence:
        """This evidence with more memories: their times (None: undated) by IRI."""
        times = [time for time in (self.first, self.last, *memories.values()) if time is not None]
        iris = (*memories, *((self.least,) if self.least is not None else ()))
        return Evidence(
            count=self.count + len(memories),
            least=min(iris, key=str, default=None),
            first=min(times, default=None),
            last=max(times, default=None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeState:
    """An edge as the graph holds it."""

    edge: Edge
    evidence: Evidence
    text: str

    @classmethod
    def read(cls, rows: Sequence[Row]) -> EdgeState | None:
        """From the rows of `edge_query` for one edge; None when a property is missing or there is more than one."""
        (row, *others) = rows
        text, worded = row.get("text"), row.get("wordedBy")
        if others or text is None or worded is None or "weight" not in row:
            return None
        first, last = row.get("firstSeen"), row.get("lastSeen")
        return cls(
            edge=Edge(URIRef(row["subject"]), URIRef(row["predicate"]), URIRef(row["object"])),
            text=text,
            evidence=Evidence(
                count=int(row["weight"]),
                least=URIRef(worded),
                first=None if first is None else float(first),
                last=None if last is None else float(last),
            ),
        )


def edge_operation(
    graph: URIRef,
    iri: URIRef,
    edge: Edge | None,
    *,
    known: bool,
    evidence: Evidence,
    text: str,
    gained: Iterable[URIRef],
    lost: Iterable[URIRef],
) -> Operation:
    """The operation that writes an edge; `known` when the graph holds properties of it that must be cleared."""
    return Operation(
        graph=graph,
        cleared=(iri,) if known else (),
        properties=tuple(COUNTED.values()),
        removed=[(iri, _EVIDENCE, memory) for memory in lost],
        added=[
            *(edge_triples(edge) if edge is not None else ()),
            *_counted(iri, evidence, text),
            *((iri, _EVIDENCE, memory) for memory in gained),
        ],
    )


def edge_text(edge: Edge, names: Iterable[str]) -> str:
    """The edge as a sentence, its entities spelled as in these names of a memory."""
    given = list(names)

    def spelled(entity: URIRef) -> str:
        return best_spelling([name for name in given if entity_iri(name) == entity] or [str(entity)])

    return f"{spelled(edge.subject)} {relation_label(edge.relation)} {spelled(edge.object)}"


def _counted(iri: URIRef, evidence: Evidence, text: str) -> Iterator[Triple]:
    yield iri, COUNTED["weight"], _number(evidence.count)
    yield iri, COUNTED["text"], Literal(text)
    if evidence.least is not None:
        yield iri, COUNTED["wordedBy"], evidence.least
    for name, time in (("firstSeen", evidence.first), ("lastSeen", evidence.last)):
        if time is not None:
            yield iri, COUNTED[name], Literal(time)


@lru_cache(maxsize=256)
def _number(value: int) -> Literal:
    return Literal(value)


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


def entity_changes(
    said: Mapping[Node, MemoryFacts], held: Mapping[Node, StoredFacts]
) -> Generator[str, Sequence[Row], tuple[list[Operation], list[Operation]]]:
    """The operations that remove spellings which no memory uses any more, and those that add new ones."""
    given: dict[Node, set[str]] = defaultdict(set)
    merged: dict[Node, set[str]] = {}
    for node, one in said.items():
        for name in one.names:
            given[Node(node.graph, entity_iri(name))].add(name)
            merged[Node(node.graph, entity_iri(name))] = set()
    for node, one in said.items():
        for name in one.merged:
            merged.setdefault(Node(node.graph, entity_iri(name.label)), set()).update(name.aliases)
    gone = yield from _gone(said, held, given)
    asked = list(dict.fromkeys((*given, *gone)))
    there: dict[Node, set[str]] = defaultdict(set)
    hidden: dict[Node, set[str]] = defaultdict(set)
    for row in (yield from select_in_batches(spellings_query, asked)):
        found = hidden if row["property"] == str(SKOS.hiddenLabel) else there
        found[node_of(row)].add(row["value"])
    less: list[Operation] = []
    more: list[Operation] = []
    for entity in asked:
        left = there[entity] - gone.get(entity, set())
        whole = left | given.get(entity, set())
        others = merged.get(entity, hidden[entity])
        if left != there[entity]:
            less.append(_spelled(entity, left, hidden[entity], known=True))
        if whole != left or (whole and others != hidden[entity]):
            more.append(_spelled(entity, whole, others, known=bool(left)))
    return less, more


def _gone(
    said: Mapping[Node, MemoryFacts], held: Mapping[Node, StoredFacts], given: Mapping[Node, set[str]]
) -> Generator[str, Sequence[Row], dict[Node, set[str]]]:
    """By entity the spellings that these memories have lost and that no other memory uses."""
    lost: dict[Name, Node] = {}
    for node, one in said.items():
        for text in sorted(held[node].names - one.names):
            entity = Node(node.graph, entity_iri(text))
            if text not in given.get(entity, ()):
                lost[Name(node.graph, text)] = entity
    without = [node.iri for node in said]
    for row in (yield from select_in_batches(partial(still_named_query, without=without), list(lost))):
        lost.pop(Name(URIRef(row["graph"]), row["name"]), None)
    gone: dict[Node, set[str]] = defaultdict(set)
    for name, entity in lost.items():
        gone[entity].add(name.text)
    return gone


def _spelled(entity: Node, spellings: set[str], merged: set[str], *, known: bool) -> Operation:
    return Operation(
        graph=entity.graph,
        cleared=(entity.iri,) if known else (),
        added=list(entity_triples(entity.iri, spellings, merged)) if spellings else (),
    )


Step = tuple[Node, URIRef]


def touched_turns(changes: Iterable[Change]) -> list[Node]:
    """The memories whose links may change: the changed ones and their neighbouring turns."""
    found: dict[Node, None] = {}
    for change in changes:
        tenant = change.memory.tenant
        for one in (change.memory.id, *(turn.id for turn in (change.previous, change.following) if turn)):
            found[_node(tenant, one)] = None
    return list(found)


def next_links(changes: Iterable[Change], there: Iterable[Step]) -> tuple[list[Step], list[Step]]:
    """The links to remove, and all links to write; `there` are the stored links of the touched turns."""
    held = dict.fromkeys(there)
    kept = _Steps(held)
    for change in changes:
        tenant = change.memory.tenant
        node = _node(tenant, change.memory.id)
        kept.cut(leaving=node)
        kept.cut(reaching=node)
        if not change.memory.is_live:
            continue
        if (before := _beside(tenant, change.previous)) is not None:
            kept.cut(leaving=before)
            kept.add((before, node.iri))
        if (after := _beside(tenant, change.following)) is not None:
            kept.cut(reaching=after)
            kept.add((node, after.iri))
    left = kept.all()
    return [step for step in held if step not in left], list(left)


class _Steps:
    """Links by either end."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._leaving: dict[Node, dict[URIRef, None]] = {}
        self._reaching: dict[Node, dict[URIRef, None]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        node, to = step
        self._leaving.setdefault(node, {})[to] = None
        self._reaching.setdefault(Node(node.graph, to), {})[node.iri] = None

    def cut(self, *, leaving: Node | None = None, reaching: Node | None = None) -> None:
        """Removes the links that leave one node, and those that reach the other."""
        if leaving is not None:
            for to in self._leaving.pop(leaving, {}):
                self._reaching[Node(leaving.graph, to)].pop(leaving.iri)
        if reaching is not None:
            for origin in self._reaching.pop(reaching, {}):
                self._leaving[Node(reaching.graph, origin)].pop(reaching.iri)

    def all(self) -> dict[Step, None]:
        return {(node, to): None for node, ends in self._leaving.items() for to in ends}


def _beside(tenant: str, turn: Neighbour | None) -> Node | None:
    return None if turn is None else _node(tenant, turn.id)


def _node(tenant: str, name: str) -> Node:
    return Node(tenant_graph(tenant), memory_iri(memory_key(tenant, name)))


def nodes_of(changes: Sequence[Change]) -> dict[Node, Change]:
    """The last change of each memory, in the order in which they come last."""
    found: dict[Node, Change] = {}
    for change in changes:
        node = _node(change.memory.tenant, change.memory.id)
        found.pop(node, None)
        found[node] = change
    return found


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
