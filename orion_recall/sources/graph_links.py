"""The links around the entities that a question names, read page by page in a few bounded queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rdflib import URIRef
from rdflib.namespace import PROV

from orion_recall.errors import SourceError
from orion_recall.graph.tenant_graph import Queryable, scope_conditions
from orion_recall.graph.vocabulary import ORION, UNEXPECTED_ROWS, tenant_graph
from orion_recall.graph.walks.spreading import Link
from orion_recall.values import Scope

_MOST_OTHERS, _MOST_MEMORIES, _NAMES_OF_EACH = 16, 32, 8
_ABOUT, _TEXT, _WEIGHT = ORION.about.n3(), ORION.text.n3(), ORION.weight.n3()
_FROM = PROV.wasDerivedFrom.n3()


class Around(NamedTuple):
    """Links between entities and memories (IRIs), and the statements of each memory."""

    links: list[Link]
    said: Mapping[str, Sequence[str]]


async def links_around(
    graph: Queryable, seeds: Sequence[str], scope: Scope, *, hops: int, max_statements: int
) -> Around:
    """Edges and mentions of the seeds, of entities up to two hops away, and the names in the memories.

    Of an entity so many are read as its part of `max_statements` allows, whether it has fifty edges or fifty
    thousand. Only memories in scope are found, and only edges that one of them states.
    """
    links: dict[Link, None] = {}
    said: dict[str, dict[str, None]] = defaultdict(dict)
    seen = set(seeds)
    at: Sequence[str] = seeds
    try:
        for _ in range(hops):
            others: dict[str, float] = {}
            for row in await graph.select(_entities_query(at, scope, max_statements)) if at else ():
                entity, memory = at[int(row["place"])], row["memory"]
                if "text" not in row:
                    links[Link(entity, memory, "mentioned")] = None
                    continue
                links[Link(entity, memory, "told")] = None
                said[memory][row["text"]] = None
                if (other := row.get("other")) is not None:
                    weight = float(row["weight"])
                    links[Link(entity, other, "edge", weight)] = None
                    others[other] = max(weight, others.get(other, 0.0))
            best = sorted((-weight, other) for other, weight in others.items() if other not in seen)
            at = [other for _, other in best[:_MOST_OTHERS]]
            seen.update(at)
        memories = list(dict.fromkeys(link.target for link in links if link.kind != "edge"))[:_MOST_MEMORIES]
        for row in await graph.select(_names_query(memories, scope)) if memories else ():
            memory, entity = memories[int(row["place"])], row["entity"]
            links[Link(memory, entity, "mentions")] = None
            links[Link(entity, memory, "mentioned")] = None
    except (LookupError, ValueError) as error:
        raise SourceError(UNEXPECTED_ROWS) from error
    return Around(list(links), {memory: tuple(texts) for memory, texts in said.items()})


def _entities_query(entities: Sequence[str], scope: Scope, max_statements: int) -> str:
    each, seen = max(4, max_statements // len(entities)), scope_conditions(scope)
    parts: list[str] = []
    for place, entity in enumerate(URIRef(one).n3() for one in entities):
        parts += (
            f'{{ SELECT ("{place}" AS ?place) ?memory ?text ?weight ?other WHERE {{ '
            f"?edge {_ABOUT} {entity} ; {_TEXT} ?text ; {_WEIGHT} ?weight ; {_FROM} ?memory {seen}"
            f" OPTIONAL {{ ?edge {_ABOUT} ?other FILTER(?other != {entity}) }} }} LIMIT {each} }}",
            f'{{ SELECT ("{place}" AS ?place) ?memory WHERE {{ ?memory {ORION.mentions.n3()} {entity} {seen}}} '
            f"LIMIT {each} }}",
        )
    graph = tenant_graph(scope.tenant).n3()
    return f"SELECT ?place ?memory ?text ?weight ?other WHERE {{ GRAPH {graph} {{ {' UNION '.join(parts)} }} }}"


def _names_query(memories: Sequence[str], scope: Scope) -> str:
    parts = (
        f'{{ SELECT ("{place}" AS ?place) ?entity WHERE {{ {URIRef(memory).n3()} {ORION.mentions.n3()} ?entity }} '
        f"LIMIT {_NAMES_OF_EACH} }}"
        for place, memory in enumerate(memories)
    )
    return (
        f"SELECT ?place ?entity WHERE {{ GRAPH {tenant_graph(scope.tenant).n3()} {{ {' UNION '.join(parts)} }} }}"
    )
