"""What is to be written to a tenant's graph, and how it is said in SPARQL."""

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
    """One step that is not taken apart: first what nodes say is cleared, then links go, then triples come.

    `cleared` are nodes that lose the given `properties`, or all that they say when none is given.
    """

    graph: URIRef
    cleared: Sequence[URIRef] = ()
    properties: Sequence[URIRef] = ()
    removed: Sequence[tuple[URIRef, URIRef, URIRef]] = ()
    added: Sequence[Triple] = ()


def rendered(operations: Iterable[Operation], condition: str | None = None) -> Iterator[str]:
    """The operations as SPARQL updates, in order, that do nothing unless the condition holds, where there is one.

    Those in a row that only bring triples to one graph are said together: an engine takes them in half the time.
    """
    waiting: list[str] = []
    length = 0
    graph: URIRef | None = None
    for operation in operations:
        if waiting and (graph != operation.graph or operation.cleared or operation.removed or length > _TOGETHER):
            yield _said("INSERT", graph, waiting, condition)
            waiting, length = [], 0
        graph = operation.graph
        if operation.cleared or operation.removed:
            yield ";\n".join(_statements(operation, condition))
        elif operation.added:
            waiting.append(_triples(operation.added))
            length += len(waiting[-1])
    if waiting:
        yield _said("INSERT", graph, waiting, condition)


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
        yield _said("DELETE", operation.graph, [_triples(operation.removed)], condition)
    if operation.added:
        yield _said("INSERT", operation.graph, [_triples(operation.added)], condition)


def _said(
    verb: Literal["INSERT", "DELETE"], graph: URIRef | None, triples: Sequence[str], condition: str | None
) -> str:
    assert graph is not None, "triples are of a graph"
    told = f"{{ GRAPH {graph.n3()} {{ {' . '.join(triples)} }} }}"
    # As data, where nothing has to hold: twice as fast again.
    return f"{verb} DATA {told}" if condition is None else f"{verb} {told} WHERE {{ {condition} }}"


def _triples(triples: Iterable[tuple[URIRef, URIRef, URIRef | Text]]) -> str:
    """The triples, those of one subject in a row said together."""
    said: list[str] = []
    last: URIRef | None = None
    for subject, predicate, value in triples:
        if subject == last:
            said.append(f" ; {predicate.n3()} {sparql_term(value)}")
        else:
            said.append(f"{' . ' if said else ''}{subject.n3()} {predicate.n3()} {sparql_term(value)}")
        last = subject
    return "".join(said)
