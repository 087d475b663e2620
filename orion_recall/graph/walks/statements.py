"""Statements at entities, for questions that one edge answers: who somebody is, and what is told of a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rdflib import Literal, URIRef
from rdflib.namespace import PROV

from orion_recall.errors import SourceError
from orion_recall.graph.relation_words import identifies
from orion_recall.graph.tenant_graph import Queryable, TenantGraph, scope_conditions
from orion_recall.graph.vocabulary import ORION, TELLS, UNEXPECTED_ROWS, key_of, overlap_filter, sparql_term
from orion_recall.text.normal import memory_key
from orion_recall.values import Scope, TimeRange


def neighbourhood_query(
    graph: URIRef, entities: Sequence[URIRef], *, scope: Scope, hops: int, max_statements: int
) -> str:
    """SPARQL for rows of (seed, hop, memory, text); text is unbound where a memory only mentions the entity.

    `seed` is the entity's place in `entities`. Only memories in scope are found and count towards the limits; the
    scope's tenant is the graph. IRIs and values enter through rdflib's own n3().
    """
    each = max(4, max_statements // max(1, len(entities)))
    seen = scope_conditions(scope)
    parts: list[str] = []
    for place, entity in enumerate(entities):
        seed = entity.n3()
        about, text, from_ = ORION.about.n3(), ORION.text.n3(), PROV.wasDerivedFrom.n3()
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory ?text WHERE '
            f"{{ ?s {about} {seed} ; {text} ?text ; {from_} ?memory {seen}}} LIMIT {each} }}"
        )
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory WHERE '
            f"{{ ?memory {ORION.mentions.n3()} {seed} {seen}}} LIMIT {each} }}"
        )
        if hops >= 2:
            parts.append(
                f'{{ SELECT ("{place}" AS ?seed) ("2" AS ?hop) ?memory ?text WHERE '
                f"{{ {{ SELECT DISTINCT ?other WHERE {{ ?a {about} {seed} ; {about} ?other "
                f"FILTER(?other != {seed}) }} LIMIT {each} }} "
                f"?s {about} ?other ; {text} ?text ; {from_} ?memory {seen}}} LIMIT {each} }}"
            )
    return f"SELECT ?seed ?hop ?memory ?text WHERE {{ GRAPH {graph.n3()} {{ {' UNION '.join(parts)} }} }}"


_SCAN, _EDGES, _MEMORIES, _ROWS = 2_000, 8, 3, 48
_ABOUT, _TEXT, _MENTIONS, _OCCURRED = (
    ORION.about.n3(), ORION.text.n3(), ORION.mentions.n3(), ORION.occurred.n3(),
)  # fmt: skip


class Stated(NamedTuple):
    """A memory (by its key) at an entity: the statement that it is evidence of, "" where it only mentions it.

    `said` is the memory's time, `window` what it tells of the time that was asked for; None where it has none.
    """

    memory: int
    text: str
    said: float | None = None
    window: str | None = None


async def identities(graph: Queryable, entities: Sequence[str], scope: Scope) -> list[tuple[float, Stated]]:
    """The statements of what the entities (IRIs) are, with the fit of their relation in (0, 1], best first.

    Of equal fit first those of most evidence, then the newest. Only memories in the scope are evidence.
    """
    view = TenantGraph(graph, scope.tenant)
    fits = {iri: fit for iri, name in (await view.relations()).items() if (fit := identifies(name)) > 0.0}
    if not fits or not entities:
        return []
    relations = dict.fromkeys(entities, tuple(fits))
    found = await view.edges(entities, limit=4 * _EDGES, relations=relations, scan=_SCAN)
    edges = {edge.iri: edge for at in found.values() for edge in at}
    best = sorted(edges.values(), key=lambda one: (-fits[one.relation], -one.weight, -(one.seen or 0.0), one.iri))[
        :_EDGES
    ]
    evidence = await view.edge_memories([edge.iri for edge in best], limit=_MEMORIES, scope=scope)
    return [
        (fits[edge.relation], Stated(memory_key(scope.tenant, memory.id), edge.text, memory.ts))
        for edge in best
        for memory in evidence[edge.iri]
    ]


async def stated_in(
    graph: Queryable, entities: Sequence[str], scope: Scope, *, told: Sequence[TimeRange], said: Sequence[TimeRange]
) -> list[Stated]:
    """What memories in the scope state of the entities (IRIs) that tell of one of the intervals `told`, or that are
    of one of the intervals `said` (half-open, epoch seconds), and the memories that only mention them.

    Of an entity so many are read that a hub costs no more than another.
    """
    seen, parts = scope_conditions(scope), list[str]()
    tests = " || ".join(
        test
        for test in (
            "BOUND(?window)" if told else "",
            *(f"({_within(since, until)})" for since, until in said),
        )
        if test
    )
    window = f"OPTIONAL {{ ?memory {TELLS} ?window FILTER{overlap_filter('?window', told)} }}" if told else ""
    rest = f"OPTIONAL {{ ?memory {_OCCURRED} ?said }} {window} FILTER({tests})"
    if not tests:
        return []
    for entity in (URIRef(one).n3() for one in entities):
        edges = f"{{ SELECT ?edge WHERE {{ ?edge {_ABOUT} {entity} }} LIMIT {_SCAN} }}"
        mentions = f"{{ SELECT ?memory WHERE {{ ?memory {_MENTIONS} {entity} {seen} }} LIMIT {_SCAN} }}"
        parts += (
            f"{{ SELECT ?memory ?text ?said ?window WHERE {{ {edges} ?edge {_TEXT} ?text ; "
            f"{PROV.wasDerivedFrom.n3()} ?memory {seen} {rest} }} LIMIT {_ROWS} }}",
            f"{{ SELECT ?memory ?said ?window WHERE {{ {mentions} {rest} }} LIMIT {_ROWS} }}",
        )
    try:
        return [
            Stated(
                key_of(row["memory"]),
                row.get("text", ""),
                float(row["said"]) if "said" in row else None,
                row.get("window"),
            )
            for row in await TenantGraph(graph, scope.tenant).rows(" UNION ".join(parts))
        ]
    except (LookupError, ValueError) as error:
        raise SourceError(UNEXPECTED_ROWS) from error


def _within(since: float | None, until: float | None) -> str:
    bounds = [("<=", since), (">", until)]
    tests = [f"{sparql_term(Literal(at))} {sign} ?said" for sign, at in bounds if at is not None]
    return " && ".join(tests) or "BOUND(?said)"
