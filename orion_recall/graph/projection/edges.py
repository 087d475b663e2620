"""The stored evidence of an edge: how many memories state it, their times, and the words of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rdflib import Literal, URIRef
from rdflib.namespace import PROV

from orion_recall.graph.projection.lookups import COUNTED
from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import (
    Edge,
    Triple,
    best_spelling,
    edge_triples,
    entity_iri,
    relation_label,
)

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
