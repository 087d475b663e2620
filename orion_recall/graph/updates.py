"""Changes of the outbox as SPARQL updates, and the position that says how far a graph has come.

Every operation holds only while the graph is at the position that the changes were read after, and of the record
that they are of. So what a server carries out late, after the same or a later batch has been written by somebody
else, does nothing; nor does what is meant for another data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdflib import Literal, URIRef

from orion_recall.graph.terms import written
from orion_recall.graph.vocabulary import ORION, PROJECTION, outdated, tenant_graph, triples
from orion_recall.values import Change

_MOST_CHARACTERS = 500_000
_HOLDS = f"{PROJECTION.n3()} {ORION.position.n3()}"
_IS_OF = f"{PROJECTION.n3()} {ORION.record.n3()}"

POSITION_QUERY = f"SELECT ?position WHERE {{ {_HOLDS} ?position }}"
# What a graph says of itself, one thing a row: positions and marks of records.
CARD_QUERY = f"SELECT ?position ?record WHERE {{ {{ {_HOLDS} ?position }} UNION {{ {_IS_OF} ?record }} }}"


def updates(changes: Sequence[Change], held: int, record: str | None = None) -> Iterator[str]:
    """Update requests that put the changes into a graph at position `held`, in order, none of them very long.

    With `record`, its mark, only into a graph that has the same mark, or has nothing yet. The data first and the
    claim that it is there last: what ends between the two is written again.
    """
    waiting: list[str] = []
    length = 0
    for operation in _data(changes, held, record):
        if waiting and length + len(operation) > _MOST_CHARACTERS:
            yield ";\n".join(waiting)
            waiting, length = [], 0
        waiting.append(operation)
        length += len(operation)
    yield ";\n".join((*waiting, _claim(held, changes[-1].position, record)))


def adoption(held: int, record: str) -> str:
    """An update that marks a graph at position `held`, which has no mark yet, as the record's."""
    return f"INSERT {{ {_of(record)} }} WHERE {{ {_at(held)} FILTER NOT EXISTS {{ {_IS_OF} ?any }} }}"


def _data(changes: Sequence[Change], held: int, record: str | None) -> Iterator[str]:
    seen = _seen(held, record)
    if held == 0:
        another = (
            "" if record is None else f"FILTER NOT EXISTS {{ {_IS_OF} ?other FILTER(?other != {_said(record)}) }}"
        )
        yield f"INSERT {{ {seen} }} WHERE {{ FILTER NOT EXISTS {{ {_HOLDS} ?any }} {another} }}"
    for tenant in dict.fromkeys(change.memory.tenant for change in changes):
        yield from _cuts(tenant_graph(tenant), [one for one in changes if one.memory.tenant == tenant], seen)
    for change in changes:
        graph = tenant_graph(change.memory.tenant).n3()
        told = " ".join(
            f"{written(subject)} {written(predicate)} {written(value)} ."
            for subject, predicate, value in triples(change)
        )
        yield f"INSERT {{ GRAPH {graph} {{ {told} }} }} WHERE {{ {seen} }}"


def _cuts(graph: URIRef, changes: Sequence[Change], seen: str) -> Iterator[str]:
    """Deletes the edges between turns that may no longer be there, looked up by the end that is known."""
    edge = f"?from {ORION.next.n3()} ?to"
    for end in ("from", "to"):
        ends = dict.fromkeys(
            known.n3()
            for change in changes
            for subject, _, target in outdated(change)
            if (known := subject if end == "from" else target) is not None
        )
        if ends:
            values = " ".join(ends)
            yield (
                f"DELETE {{ GRAPH {graph.n3()} {{ {edge} }} }} "
                f"WHERE {{ {seen} GRAPH {graph.n3()} {{ VALUES ?{end} {{ {values} }} {edge} }} }}"
            )


def _claim(held: int, reached: int, record: str | None) -> str:
    return f"DELETE {{ {_HOLDS} ?any }} INSERT {{ {_at(reached)} }} WHERE {{ {_seen(held, record)} {_HOLDS} ?any }}"


def _seen(held: int, record: str | None) -> str:
    return _at(held) if record is None else f"{_at(held)} {_of(record)}"


def _at(position: int) -> str:
    return f"{_HOLDS} {Literal(position).n3()} ."


def _of(record: str) -> str:
    return f"{_IS_OF} {_said(record)} ."


def _said(record: str) -> str:
    return Literal(record).n3()
