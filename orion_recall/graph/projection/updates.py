"""Operations as SPARQL updates, guarded by the graph's position in the outbox and its database identity.

Every update is conditional on the position that its changes follow, and on the identity of their record. So an
update that a server executes late, after another worker has written the same or a later batch, does nothing; nor
does one that reaches another data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple

from rdflib import Literal, URIRef

from orion_recall.graph.vocabulary import FORMAT, ORION, PROJECTION, Row, Triple, sparql_term

_TOGETHER = 50_000
_MOST_CHARACTERS = 500_000
_AT_POSITION = f"{PROJECTION.n3()} {ORION.position.n3()}"
_IS_OF = f"{PROJECTION.n3()} {ORION.record.n3()}"

_FORMAT_NAME = ORION["format"].n3()
_FORMAT = f"{PROJECTION.n3()} {_FORMAT_NAME} {Literal(FORMAT).n3()}"

# A graph's metadata, one value a row: positions with their format, and database identities.
METADATA_QUERY = (
    f"SELECT ?position ?format ?record WHERE {{ {{ {_AT_POSITION} ?position "
    f"OPTIONAL {{ {PROJECTION.n3()} {_FORMAT_NAME} ?format }} }} UNION {{ {_IS_OF} ?record }} }}"
)


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
    verb: OneOf["INSERT", "DELETE"], graph: URIRef | None, triples: Sequence[str], condition: str | None
) -> str:
    assert graph is not None, "triples are of a graph"
    told = f"{{ GRAPH {graph.n3()} {{ {' . '.join(triples)} }} }}"
    # INSERT DATA where there is no condition: twice as fast again.
    return f"{verb} DATA {told}" if condition is None else f"{verb} {told} WHERE {{ {condition} }}"


def _triples(triples: Iterable[tuple[URIRef, URIRef, URIRef | Literal]]) -> str:
    said: list[str] = []
    last: URIRef | None = None
    for subject, predicate, value in triples:
        if subject == last:
            said.append(f" ; {predicate.n3()} {sparql_term(value)}")
        else:
            said.append(f"{' . ' if said else ''}{subject.n3()} {predicate.n3()} {sparql_term(value)}")
        last = subject
    return "".join(said)


class Metadata(NamedTuple):
    """What a graph says of itself: its position in the outbox, its format, and its database identities.

    `is_built`: it has a position in this format. `has_other_format`: in another.
    """

    position: int
    is_built: bool
    has_other_format: bool
    identities: Sequence[str]

    @classmethod
    def read(cls, rows: Sequence[Row]) -> Metadata:
        """From the rows of `METADATA_QUERY`; ValueError for a position that is not a number."""
        # More than one is an error that is repaired by writing again from the lowest.
        positions = [int(row["position"]) for row in rows if "position" in row]
        formats = {row.get("format") for row in rows if "position" in row}
        is_built = formats == {str(FORMAT)}
        identities = sorted({row["record"] for row in rows if "record" in row})
        return cls(min(positions) if is_built else 0, is_built, bool(formats) and not is_built, identities)


def updates(
    operations: Iterable[Operation], held: int, reached: int, *, record: str | None = None, guarded: bool = True
) -> Iterator[str]:
    """Update requests of bounded length that execute the operations, in order, on a graph at position `held`.

    With `record`, a database identity, only on a graph that has the same identity, or is empty. The data comes
    first and the new position last: after a crash between the two the data is written again. `guarded=False`, for a
    graph with one writer, leaves the condition on the position out.
    """
    at = f"{_AT_POSITION} {Literal(held).n3()}"
    seen = at if record is None else f"{at} . {_IS_OF} {Literal(record).n3()}"
    waiting: list[str] = []
    if held == 0:
        another = (
            f"FILTER NOT EXISTS {{ {_IS_OF} ?other FILTER(?other != {Literal(record).n3()}) }}"
            if record is not None
            else ""
        )
        empty = f"FILTER NOT EXISTS {{ {_AT_POSITION} ?any }} {another}"
        waiting.append(f"INSERT {{ {seen} . {_FORMAT} }} WHERE {{ {empty} }}")
    length = sum(map(len, waiting))
    for operation in rendered(operations, seen if guarded else None):
        if waiting and length + len(operation) > _MOST_CHARACTERS:
            yield ";\n".join(waiting)
            waiting, length = [], 0
        waiting.append(operation)
        length += len(operation)
    if reached != held:
        moved = f"INSERT {{ {_AT_POSITION} {Literal(reached).n3()} }} WHERE {{ {seen} . {_AT_POSITION} ?any }}"
        waiting.append(f"DELETE {{ {_AT_POSITION} ?any }} {moved}")
    if waiting:
        yield ";\n".join(waiting)
