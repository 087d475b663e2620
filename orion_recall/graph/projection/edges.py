"""What an edge says of its evidence: how many memories, since when, and in whose words."""

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
    """Some memories that state one edge: how many, the first IRI of them, and the times of those with one."""

    count: int = 0
    least: URIRef | None = None
    first: float | None = None
    last: float | None = None

    def including(self, memories: Mapping[URIRef, float | None]) -> Evidence:
        """With more memories, by IRI, and their times."""
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
    """An edge as the graph has it."""

    edge: Edge
    evidence: Evidence
    text: str

    @classmethod
    def read(cls, rows: Sequence[Row]) -> EdgeState | None:
        """Out of the rows of `edge_query` for one edge; None when they do not say each thing once."""
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
    """An edge as it now is; `known` when there is something of it that must go first."""
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
    """The edge as a sentence, its ends spelled as a memory with these names spells them."""
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
