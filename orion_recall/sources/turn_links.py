"""The links of turns in the graph: next turn, reference by id, and reference by URI, in both directions.

One query for all turns of a step. Each kind of link has a limit of eight times the turns, so that a turn to which
very many refer costs no more than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from orion_recall.errors import SourceError
from orion_recall.graph.tenant_graph import Queryable, scope_conditions
from orion_recall.graph.vocabulary import ORION, UNEXPECTED_ROWS, key_of, memory_iri, tenant_graph
from orion_recall.values import Scope

_OF_EACH, _FRONTIER = 8, 64
_ID, _NEXT, _REFERS, _QUOTES, _URI = (ORION[name].n3() for name in ("id", "next", "refersTo", "quotes", "uri"))

_WAYS = (
    ("after", f"?node {_NEXT} ?memory"),
    ("before", f"?memory {_NEXT} ?node"),
    ("referred", f"?node {_REFERS} ?memory"),
    ("referring", f"?memory {_REFERS} ?node"),
    ("referred", f"?node {_QUOTES} ?uri . ?memory {_URI} ?uri"),
    ("referring", f"?node {_URI} ?uri . ?memory {_QUOTES} ?uri"),
)


class TurnLink(NamedTuple):
    """A directed link between two memories, by their keys: to the next turn, or to what is referred to."""

    source: int
    target: int
    kind: Literal["next", "reference"]


class TurnLinks:
    """Reads the links of turns from a graph."""

    def __init__(self, graph: Queryable) -> None:
        self._graph = graph

    async def around(self, keys: Sequence[int], scope: Scope, *, steps: int) -> list[TurnLink]:
        """The links that are at most so many steps away from the memories of these keys, each once.

        Only memories in scope are found. At most 64 memories of a step lead further. SourceError when the graph
        does not answer.
        """
        links: dict[TurnLink, None] = {}
        seen, at = set(keys), list(keys)[:_FRONTIER]
        try:
            for _ in range(steps):
                further: dict[int, None] = {}
                for row in await self._graph.select(_links_query(at, scope)) if at else ():
                    known, found, way = key_of(row["node"]), key_of(row["memory"]), row["way"]
                    source, target = (found, known) if way in ("before", "referring") else (known, found)
                    kind = "next" if way in ("after", "before") else "reference"
                    if source != target:
                        links[TurnLink(source, target, kind)] = None
                        further[found] = None
                at = [key for key in further if key not in seen][:_FRONTIER]
                seen.update(at)
        except (LookupError, ValueError) as error:
            raise SourceError(UNEXPECTED_ROWS) from error
        return list(links)


def _links_query(keys: Sequence[int], scope: Scope) -> str:
    """Rows of (node, way, memory): the node is one of the keys', the memory at the other end is in scope."""
    values, there = " ".join(memory_iri(key).n3() for key in keys), f"?memory {_ID} ?id {scope_conditions(scope)}"
    parts = (
        f'{{ SELECT ?node ("{way}" AS ?way) ?memory WHERE {{ VALUES ?node {{ {values} }} {pattern} . {there} }} '
        f"LIMIT {_OF_EACH * len(keys)} }}"
        for way, pattern in _WAYS
    )
    graph = tenant_graph(scope.tenant).n3()
    return f"SELECT ?node ?way ?memory WHERE {{ GRAPH {graph} {{ {' UNION '.join(parts)} }} }}"
