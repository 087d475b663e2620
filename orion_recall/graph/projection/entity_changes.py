"""Plans the changes of entities: the spellings that memories give them, and the names merged into them.

Every change of a memory carries all merged names of the entities it names, so the last change is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from functools import partial

from rdflib import URIRef
from rdflib.namespace import SKOS

from orion_recall.graph.projection.facts import MemoryFacts, StoredFacts, select_in_batches
from orion_recall.graph.projection.lookups import Name, Node, node_of, spellings_query, still_named_query
from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import entity_iri, entity_triples


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
