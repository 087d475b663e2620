"""Changes of the outbox as SPARQL updates, and the position that says how far a graph has come.

Every operation holds only while the graph is at the position that the changes were read after, and of the record
that they are of. So what a server carries out late, after the same or a later batch has been written by somebody
else, does nothing; nor does what is meant for another data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rdflib import Literal, URIRef

from orion_recall.graph.projection.operations import Operation, rendered
from orion_recall.graph.terms import Row
from orion_recall.graph.vocabulary import FORMAT, ORION, PROJECTION, TENANTS

_MOST_CHARACTERS = 500_000
_CLEARED_AT_ONCE = 100_000
_HOLDS = f"{PROJECTION.n3()} {ORION.position.n3()}"
_IS_OF = f"{PROJECTION.n3()} {ORION.record.n3()}"

_FORMAT_NAME = ORION["format"].n3()
_FORMAT = f"{PROJECTION.n3()} {_FORMAT_NAME} {Literal(FORMAT).n3()}"
_OF_ANOTHER_FORMAT = f"FILTER NOT EXISTS {{ {_FORMAT} }}"

# What a graph says of itself, one thing a row: positions with their format, and marks of records.
METADATA_QUERY = (
    f"SELECT ?position ?format ?record WHERE {{ {{ {_HOLDS} ?position "
    f"OPTIONAL {{ {PROJECTION.n3()} {_FORMAT_NAME} ?format }} }} UNION {{ {_IS_OF} ?record }} }}"
)

# What a graph of another format has left: its tenants' graphs are emptied piece by piece, then it is forgotten.
OTHER_FORMAT_QUERY = (
    f'SELECT ?graph WHERE {{ GRAPH ?graph {{}} FILTER(STRSTARTS(STR(?graph), "{TENANTS}")) {_OF_ANOTHER_FORMAT} }}'
)
FORGET_OTHER_FORMAT = (
    f"DELETE {{ {PROJECTION.n3()} ?p ?o }} WHERE {{ {PROJECTION.n3()} ?p ?o {_OF_ANOTHER_FORMAT} }}"
)


def count_query(graph: str) -> str:
    """One row: how much there is in a graph."""
    return f"SELECT (COUNT(*) AS ?count) WHERE {{ GRAPH {URIRef(graph).n3()} {{ ?s ?p ?o }} }}"


def clear_update(graph: str) -> str:
    """An update that takes a piece of a tenant's graph away, unless the whole is of this format by then."""
    inside = f"GRAPH {URIRef(graph).n3()} {{ ?s ?p ?o }}"
    return (
        f"DELETE {{ {inside} }} WHERE {{ {_OF_ANOTHER_FORMAT} "
        f"{{ SELECT ?s ?p ?o WHERE {{ {inside} }} LIMIT {_CLEARED_AT_ONCE} }} }}"
    )


def position_in(rows: Iterable[Row]) -> int | None:
    """The position that the rows of `METADATA_QUERY` tell; None for a graph of another format, or one not begun.

    ValueError for one that is no number.
    """
    # More than one would be somebody's mistake: writing again from the lowest mends it.
    told = [(int(row["position"]), row.get("format")) for row in rows if "position" in row]
    if any(format_ != str(FORMAT) for _, format_ in told):
        return None
    return min((position for position, _ in told), default=None)


def identities_in(rows: Iterable[Row]) -> list[str]:
    """The marks of records that the rows of `METADATA_QUERY` tell, in order."""
    return sorted({row["record"] for row in rows if "record" in row})


def updates(
    operations: Iterable[Operation], held: int, reached: int, *, record: str | None = None, guarded: bool = True
) -> Iterator[str]:
    """Requests that carry the operations out on a graph at position `held`, in order, none of them very long.

    With `record`, its mark, only on a graph that has the same mark, or has nothing yet. The data first and the
    claim that it is there last: what ends between the two is written again. A graph that nobody else writes to
    needs no guard: there, what is written is not made to depend on the position.
    """
    waiting: list[str] = []
    length = 0
    for operation in _data(operations, held, record, guarded=guarded):
        if waiting and length + len(operation) > _MOST_CHARACTERS:
            yield ";\n".join(waiting)
            waiting, length = [], 0
        waiting.append(operation)
        length += len(operation)
    if reached != held:
        waiting.append(_claim(held, reached, record))
    if waiting:
        yield ";\n".join(waiting)


def adoption_update(held: int, record: str) -> str:
    """An update that marks a graph at position `held`, which has no mark yet, as the record's."""
    return f"INSERT {{ {_of(record)} }} WHERE {{ {_at(held)} FILTER NOT EXISTS {{ {_IS_OF} ?any }} }}"


def _data(operations: Iterable[Operation], held: int, record: str | None, *, guarded: bool) -> Iterator[str]:
    seen = _seen(held, record)
    if held == 0:
        another = (
            "" if record is None else f"FILTER NOT EXISTS {{ {_IS_OF} ?other FILTER(?other != {_said(record)}) }}"
        )
        yield (f"INSERT {{ {seen} . {_FORMAT} }} WHERE {{ FILTER NOT EXISTS {{ {_HOLDS} ?any }} {another} }}")
    yield from rendered(operations, seen if guarded else None)


def _claim(held: int, reached: int, record: str | None) -> str:
    return (
        f"DELETE {{ {_HOLDS} ?any }} INSERT {{ {_at(reached)} }} WHERE {{ {_seen(held, record)} . {_HOLDS} ?any }}"
    )


def _seen(held: int, record: str | None) -> str:
    return _at(held) if record is None else f"{_at(held)} . {_of(record)}"


def _at(position: int) -> str:
    return f"{_HOLDS} {Literal(position).n3()}"


def _of(record: str) -> str:
    return f"{_IS_OF} {_said(record)}"


def _said(record: str) -> str:
    return Literal(record).n3()
