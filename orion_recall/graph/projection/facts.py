"""Facts of a memory that other nodes depend on, as stated and as stored; and the query interface of plans."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rdflib import URIRef

from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import Edge, all_entities, edge_of, event_time
from orion_recall.values import Change, Memory, MergedName

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
