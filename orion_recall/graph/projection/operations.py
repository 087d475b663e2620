"""Write operations on a tenant's graph, and their text as SPARQL updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rdflib import Literal as Text
from rdflib import URIRef

from orion_recall.graph.terms import sparql_term
from orion_recall.graph.vocabulary import Triple

_TOGETHER = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One atomic write: first properties of nodes are cleared, then triples removed, then triples added.

    `cleared` are nodes that lose the given `properties`, or all their properties when none is given.
    """

    graph: URIRef
    cleared: Sequence[URIRef] = ()
    properties: Sequence[URIRef] = ()
    removed: Sequence[tuple[URIRef, URIRef, URIRef]] = ()
    added: Sequence[Triple] = ()


def rendered(operations: Iterable[Operation], condition: str | None = None) -> Iterator[str]:
    """The operations as SPARQL updates, in order. With a condition they do nothing unless it holds.

    Consecutive operations that only add triples to one graph are merged: an engine takes them in half the time.
    """
    waiting: list[str] = []
    length = 0
    graph: URIRef | None = None
    for operation in operations:
        if waiting and (graph != operation.graph or operation.cleared or operation.removed or length > _TOGETHER):
            yield _statement("INSERT", graph, waiting, condition)
            waiting, length = [], 0
        graph = operation.graph
        if operation.cleared or operation.removed:
            yield ";\n".join(_statements(operation, condition))
        elif operation.added:
            waiting.append(_triples(operation.added))
            length += len(waiting[-1])
    if waiting:
        yield _statement("INSERT", graph, waiting, condition)


def _statements(operation: Operation, condition: str | None) -> Iterator[str]:
    graph = operation.graph.n3()
    if operation.cleared:
        values = f"VALUES ?node {{ {' '.join(node.n3() for node in operation.cleared)} }}"
        if operation.properties:
            values += f" VALUES ?property {{ {' '.join(name.n3() for name in operation.properties)} }}"
        yield (
            f"DELETE {{ GRAPH {graph} {{ ?node ?property ?value }} }} WHERE {{ "
            f"{f'{condition} . ' if condition else ''}GRAPH {graph} {{ {values} ?node ?property ?value }} }}"
        )
    if operation.removed:
        yield _statement("DELETE", operation.graph, [_triples(operation.removed)], condition)
    if operation.added:
        yield _statement("INSERT", operation.graph, [_triples(operation.added)], condition)


def _statement(
    verb: Literal["INSERT", "DELETE"], graph: URIRef | None, triples: Sequence[str], condition: str | None
) -> str:
    assert graph is not None, "triples are of a graph"
    told = f"{{ GRAPH {graph.n3()} {{ {' . '.join(triples)} }} }}"
    # INSERT DATA where there is no condition: twice as fast again.
    return f"{verb} DATA {told}" if condition is None else f"{verb} {told} WHERE {{ {condition} }}"


def _triples(triples: Iterable[tuple[URIRef, URIRef, URIRef | Text]]) -> str:
    """The triples, consecutive ones of one subject abbreviated with a semicolon."""
    said: list[str] = []
    last: URIRef | None = None
    for subject, predicate, value in triples:
        if subject == last:
            said.append(f" ; {predicate.n3()} {sparql_term(value)}")
        else:
            said.append(f"{' . ' if said else ''}{subject.n3()} {predicate.n3()} {sparql_term(value)}")
        last = subject
    return "".join(said)
