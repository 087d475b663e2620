"""Fills the graph in bulk: what is composed is planned as a worker plans it, and repeated as text."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyoxigraph
from rdflib import Literal, URIRef
from rdflib.namespace import PROV

from orion_recall.graph.projection.plan import COUNTED, plan_changes, run_plan
from orion_recall.graph.projection.updates import updates
from orion_recall.graph.vocabulary import (
    ORION,
    PROJECTION,
    Triple,
    event_time,
    memory_iri,
    sparql_term,
    tenant_graph,
)
from tests.bench.scale.memories import SHIFT_S, Tail, TenantMemories, memory_id, session_id

_EVIDENCE, _NEXT = PROV.wasDerivedFrom, ORION.next
_OWN = (ORION.id, ORION.content, ORION.session, ORION.occurred)


class _Plan:
    """The triples of a tenant's composed memories: what is said once, and what is said of each memory."""

    def __init__(self, part: TenantMemories) -> None:
        self._part = part
        places = {memory_iri(part.key(number)): number for number in part.numbers(0)}
        self.once: list[Triple] = []
        self.of_each: list[list[str]] = [[] for _ in part.base]
        self.next: list[int | None] = [None] * len(part.base)
        self.edges: list[list[str]] = [[] for _ in part.base]
        self.weight_of: dict[str, int] = {}
        for operation in run_plan(plan_changes(part.base), lambda query: []):
            for triple in operation.added:
                self._sort(triple, places)

    def _sort(self, triple: Triple, places: dict[URIRef, int]) -> None:
        subject, predicate, value = triple
        if predicate == _EVIDENCE and isinstance(value, URIRef):
            self.edges[places[value]].append(subject.n3())
        elif predicate == COUNTED["weight"]:
            self.weight_of[subject.n3()] = 0
        elif (place := places.get(subject)) is None:
            self.once.append(triple)
        elif predicate == _NEXT and isinstance(value, URIRef):
            self.next[place] = places[value]
        elif predicate not in _OWN:
            self.of_each[place].append(f"{predicate.n3()} {sparql_term(value)} .\n")

    def lines(self, repetition: int, counted: Counter[str]) -> Iterator[str]:
        """The statements of a repetition; `counted` counts the evidence of edges."""
        part, base = self._part, len(self._part.base)
        for number in part.numbers(repetition):
            place = number % base
            memory = part.base[place].memory
            node = memory_iri(part.key(number)).n3()
            text = memory.text + (Tail.of(number).text if repetition else "")
            at = (event_time(memory) or 0.0) - SHIFT_S * repetition
            session = session_id(number - place + part.session_of[place])
            own = zip(_OWN, (memory_id(number), text, session, at), strict=True)
            yield from (f"{node} {name.n3()} {sparql_term(Literal(value))} .\n" for name, value in own)
            yield from (f"{node} {one}" for one in self.of_each[place])
            following = self.next[place]
            if following is not None and (other := number - place + following) < part.size:
                yield f"{node} {_NEXT.n3()} {memory_iri(part.key(other)).n3()} .\n"
            for edge in self.edges[place]:
                counted[edge] += 1
                yield f"{edge} {_EVIDENCE.n3()} {node} .\n"

    def shared(self, counted: Counter[str]) -> Iterator[str]:
        """Entities, relations and edges, with the number of memories that state each edge."""
        yield from (f"{one.n3()} {name.n3()} {sparql_term(value)} .\n" for one, name, value in self.once)
        weight = COUNTED["weight"].n3()
        yield from (f"{edge} {weight} {Literal(counted[edge]).n3()} .\n" for edge in self.weight_of)


def fill_graph(store: Path, parts: Sequence[TenantMemories], *, position: int, identity: str) -> None:
    """Writes the store, at that position in the outbox of the database with that identity."""
    store.parent.mkdir(parents=True, exist_ok=True)
    graph = pyoxigraph.Store(str(store))
    for part in parts:
        plan, counted, name = _Plan(part), Counter[str](), pyoxigraph.NamedNode(str(tenant_graph(part.tenant)))
        for repetition in range(part.repetitions):
            _load(graph, name, plan.lines(repetition, counted))
            print(part.numbers(repetition).stop, flush=True)
        _load(graph, name, plan.shared(counted))
    for request in updates((), 0, position, guarded=False):
        graph.update(request)
    record = pyoxigraph.NamedNode(str(ORION.record))
    graph.add(pyoxigraph.Quad(pyoxigraph.NamedNode(str(PROJECTION)), record, pyoxigraph.Literal(identity)))
    graph.flush()
    graph.optimize()


def _load(graph: pyoxigraph.Store, name: pyoxigraph.NamedNode, lines: Iterator[str]) -> None:
    data = io.BytesIO("".join(lines).encode())
    graph.bulk_load(data, format=pyoxigraph.RdfFormat.N_TRIPLES, to_graph=name)
