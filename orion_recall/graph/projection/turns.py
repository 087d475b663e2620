"""The `next` links between the turns of a session: which a change removes, and which it adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rdflib import URIRef

from orion_recall.graph.projection.lookups import Node
from orion_recall.graph.vocabulary import memory_iri, tenant_graph
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Neighbour

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
