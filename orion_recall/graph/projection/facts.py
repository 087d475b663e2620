"""What memories say and what a graph has of them, as far as it matters to others; and how a graph is asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rdflib import URIRef

from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import Edge, all_entities, edge_of, event_time
from orion_recall.values import Change, Memory, MergedName

# A conversation with a graph: yields SPARQL queries, is sent their rows, ends with what it was for.
RowQuery = Generator[str, Sequence[Row], list[Row]]
OperationPlan = Generator[str, Sequence[Row], list[Operation]]

_ASKED_AT_ONCE = 400
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """The names, the time and the edges that a memory gives; nothing for one that is to go.

    `voice` is what its speaker is called, `merged` are those of its entities that others were merged into.
    """

    names: frozenset[str] = frozenset()
    time: float | None = None
    edges: Mapping[URIRef, Edge] = field(default_factory=dict[URIRef, Edge])
    voice: str | None = None
    merged: tuple[MergedName, ...] = ()

    @classmethod
    def by(cls, memory: Memory | None, change: Change | None = None) -> MemoryFacts:
        """What this one says; the change knows of merged names."""
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
    """What the graph has of a memory: edges too when its own node is not there."""

    present: bool = False
    names: set[str] = field(default_factory=set[str])
    time: float | None = None
    edges: set[URIRef] = field(default_factory=set[URIRef])


def select_in_batches(query: Callable[[Sequence[T]], str], about: Sequence[T]) -> RowQuery:
    """All rows of a query about many things, asked for some hundred of them at a time."""
    rows: list[Row] = []
    for start in range(0, len(about), _ASKED_AT_ONCE):
        rows += yield query(about[start : start + _ASKED_AT_ONCE])
    return rows


def run_plan(asking: OperationPlan, select: Callable[[str], Sequence[Row]]) -> list[Operation]:
    """The operations at the end of a conversation with a graph that is asked here and now."""
    try:
        query = next(asking)
        while True:
            query = asking.send(select(query))
    except StopIteration as end:
        return end.value
