"""Bounded reads from one tenant's graph: entities, relations, edges, the memories behind them, and statements.

Each node has a sub-select with its own limit: a node with fifty thousand edges costs what one with fifty does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.errors import ScopeNotKept, SourceError
from orion_recall.graph.relation_words import identifies
from orion_recall.graph.vocabulary import (
    ORION,
    TELLS,
    edge_tells,
    entity_iri,
    key_of,
    overlap_filter,
    reading_rows,
    sparql_term,
    tenant_graph,
)
from orion_recall.text.normal import memory_key
from orion_recall.values import Scope, TimeRange

MOST_RELATIONS = 5_000
_AT_ONCE = 64
_LABEL, _ALSO, _MERGED = SKOS.prefLabel.n3(), SKOS.altLabel.n3(), SKOS.hiddenLabel.n3()
_SUBJECT, _PREDICATE, _OBJECT = RDF.subject.n3(), RDF.predicate.n3(), RDF.object.n3()
_ABOUT, _TEXT, _WEIGHT = ORION.about.n3(), ORION.text.n3(), ORION.weight.n3()
_FROM, _MENTIONS, _OCCURRED = PROV.wasDerivedFrom.n3(), ORION.mentions.n3(), ORION.occurred.n3()


class Queryable(Protocol):
    """A graph that answers SPARQL SELECT queries, embedded or on a server."""

    async def select(self, query: str) -> Sequence[Mapping[str, str]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation between two entities that memories state: unique by subject, relation and object (IRIs).

    `name` is the relation's name, `weight` the number of memories that state it, `seen` the newest of their times
    (None: undated). `during`: whether one of them tells of the time that was asked for; None where none was.
    """

    iri: str
    subject: str
    relation: str
    name: str
    object: str
    text: str
    weight: float
    seen: float | None
    during: bool | None = None

    def other(self, end: str) -> str:
        return self.object if end == self.subject else self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeMemory:
    """A memory that is evidence of an edge; `told` are the windows that its text tells."""

    id: str
    text: str
    ts: float | None
    told: tuple[str, ...] = ()


class TenantGraph:
    """One tenant's graph in a store. An answer of another shape than its query's is a SourceError."""

    def __init__(self, store: Queryable, tenant: str) -> None:
        self._store, self.graph = store, tenant_graph(tenant)

    async def rows(self, pattern: str) -> Sequence[Mapping[str, str]]:
        """The rows of a graph pattern, matched inside the tenant's graph."""
        return await self._store.select(f"SELECT * WHERE {{ GRAPH {self.graph.n3()} {{ {pattern} }} }}")

    async def each(self, things: Sequence[str], part: Callable[[str], str]) -> list[tuple[str, Mapping[str, str]]]:
        """The rows of a sub-select for each of the things, with the thing; many are read in one query.

        `part` gives a sub-select from its variables on: `?a WHERE { … } LIMIT n`.
        """
        found: list[tuple[str, Mapping[str, str]]] = []
        for start in range(0, len(things), _AT_ONCE):
            batch = things[start : start + _AT_ONCE]
            parts = (f'{{ SELECT ("{place}" AS ?place) {part(one)} }}' for place, one in enumerate(batch))
            with reading_rows():
                found += [(batch[int(row["place"])], row) for row in await self.rows(" UNION ".join(parts))]
        return found

    async def edges(
        self,
        nodes: Sequence[str],
        *,
        limit: int,
        relations: Sequence[str] | None = None,
        scan: int = 0,
        during: Sequence[TimeRange] = (),
    ) -> dict[str, list[Edge]]:
        """The edges at each of the nodes, at most `limit` of each.

        With `relations` (IRIs) only edges of these relations, among the first `scan` of the node. With `during`
        (epoch seconds) each edge says whether a memory of it tells of one of these intervals.
        """
        told = f"BIND({edge_tells('?edge', during)} AS ?during)" if during else ""
        wanted = ", ".join(URIRef(one).n3() for one in relations or ())

        def part(node: str) -> str:
            edges = f"{{ SELECT ?edge WHERE {{ ?edge {_ABOUT} {URIRef(node).n3()} }} LIMIT {scan or limit} }}"
            if relations is not None:
                # Filtered before anything else is read: of five hundred edges few are of these relations.
                edges = (
                    f"{{ SELECT ?edge WHERE {{ {edges} ?edge {_PREDICATE} ?relation "
                    f"FILTER(?relation IN ({wanted})) }} LIMIT {limit} }}"
                )
            return (
                "?edge ?subject ?relation ?object ?text ?weight ?seen ?name ?during "
                f"WHERE {{ {edges} {_EDGE} {told} }} LIMIT {limit}"
            )

        found: dict[str, dict[str, Edge]] = {node: {} for node in nodes}
        for node, row in await self.each(nodes, part):
            edge = _edge(row)
            found[node].setdefault(edge.iri, edge)
        return {node: list(edges.values()) for node, edges in found.items()}

    async def strongest(self, limit: int, *, scan: int) -> list[Edge]:
        """The edges of most weight, among the first `scan` in the engine's order."""
        rows = await self.rows(
            f"{{ SELECT ?edge ?weight WHERE {{ {{ SELECT ?edge ?weight WHERE {{ ?edge {_WEIGHT} ?weight }} "
            f"LIMIT {scan} }} }} ORDER BY DESC(?weight) ?edge LIMIT {limit} }} {_EDGE}"
        )
        return list({edge.iri: edge for edge in map(_edge, rows)}.values())

    async def edge_memories(
        self, edges: Sequence[str], *, limit: int, scope: Scope | None = None
    ) -> dict[str, list[EdgeMemory]]:
        """The memories (in the scope) that are evidence of each edge, at most `limit` of each, newest first."""
        seen = scope_conditions(scope) if scope is not None else ""

        def part(edge: str) -> str:
            memories = f"SELECT ?memory WHERE {{ {URIRef(edge).n3()} {_FROM} ?memory {seen}}} LIMIT {limit}"
            return (
                f"?id ?text ?ts ?told WHERE {{ {{ {memories} }} ?memory {ORION.id.n3()} ?id ; "
                f"{ORION.content.n3()} ?text OPTIONAL {{ ?memory {_OCCURRED} ?ts }} "
                f"OPTIONAL {{ ?memory {TELLS} ?told }} }}"
            )

        found: dict[str, dict[str, EdgeMemory]] = {edge: {} for edge in edges}
        for edge, row in await self.each(edges, part):
            with reading_rows():
                one = EdgeMemory(id=row["id"], text=row["text"], ts=_number(row, "ts"))
            before = found[edge].get(one.id, one).told
            told = tuple(sorted({*before, row["told"]})) if "told" in row else before
            found[edge][one.id] = replace(one, told=told)
        return {
            edge: sorted(told.values(), key=lambda one: (-(one.ts or 0.0), one.id)) for edge, told in found.items()
        }

    async def labels(self, entities: Sequence[str]) -> dict[str, str]:
        """The shown names of entities; entities without one are absent."""
        found: dict[str, str] = {}
        for entity, row in await self.each(
            entities, lambda one: f"?label WHERE {{ {URIRef(one).n3()} {_LABEL} ?label }}"
        ):
            with reading_rows():
                found[entity] = min(row["label"], found.get(entity, row["label"]))
        return found

    async def speakers(self, entities: Sequence[str]) -> frozenset[str]:
        """The entities among these that are a speaker of some memory."""
        spoken_by = ORION.spokenBy.n3()
        found = await self.each(entities, lambda one: f"WHERE {{ ?memory {spoken_by} {URIRef(one).n3()} }} LIMIT 1")
        return frozenset(one for one, _ in found)

    async def relations(self) -> dict[str, str]:
        """The names of the relations that the graph has, by their IRIs; 5,000 of them at most."""
        return await self._labels_of(RDF.Property, MOST_RELATIONS)

    async def all_labels(self, limit: int) -> dict[str, str]:
        """Names of entities by their IRIs, `limit` of them at most: whichever the engine comes to first."""
        return await self._labels_of(SKOS.Concept, limit)

    async def _labels_of(self, kind: URIRef, limit: int) -> dict[str, str]:
        rows = await self.rows(
            f"{{ SELECT ?node ?label WHERE {{ ?node a {kind.n3()} ; {_LABEL} ?label }} LIMIT {limit} }}"
        )
        with reading_rows():
            return {row["node"]: row["label"] for row in rows}

    async def named(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The entities (IRIs) of each name: by the name itself, folded, a spelling, or a name merged into it."""

        def part(name: str) -> str:
            own, spelling = entity_iri(name).n3(), sparql_term(Literal(name))
            itself = f"SELECT ({own} AS ?entity) WHERE {{ {own} {_LABEL} ?label }} LIMIT 1"
            also = f"SELECT ?entity WHERE {{ ?entity {_ALSO}|{_MERGED} {spelling} }} LIMIT 8"
            return f"?entity WHERE {{ {{ {itself} }} UNION {{ {also} }} }}"

        found: dict[str, list[str]] = {name: [] for name in names}
        for name, row in await self.each(list(found), part):
            with reading_rows():
                if row["entity"] not in found[name]:
                    found[name].append(row["entity"])
        return found


_EDGE = (
    f"?edge {_SUBJECT} ?subject ; {_PREDICATE} ?relation ; {_OBJECT} ?object ; {_TEXT} ?text ; {_WEIGHT} ?weight "
    f"OPTIONAL {{ ?edge {ORION.lastSeen.n3()} ?seen }} OPTIONAL {{ ?relation {_LABEL} ?name }}"
)


def scope_conditions(scope: Scope) -> str:
    """SPARQL conditions on ?memory for a scope. A memory without a property does not match a condition on it.

    ScopeNotKept for told times, which the graph does not hold.
    """
    if scope.told:
        raise ScopeNotKept("the graph cannot be searched by the times that texts tell")
    conditions: list[str] = []
    ids = {"session": scope.session_id, "user": scope.user_id, "agent": scope.agent_id, "run": scope.run_id}
    conditions += [
        f"?memory {ORION[name].n3()} {sparql_term(Literal(wanted))}"
        for name, wanted in ids.items()
        if wanted is not None
    ]
    for name, wanted in (("kind", scope.kinds), ("tag", scope.tags)):
        if wanted:
            values = ", ".join(sparql_term(Literal(value)) for value in wanted)
            conditions.append(
                f"FILTER EXISTS {{ ?memory {ORION[name].n3()} ?{name} FILTER(?{name} IN ({values})) }}"
            )
    if scope.speakers:
        values = ", ".join(entity_iri(speaker).n3() for speaker in scope.speakers)
        conditions.append(f"FILTER EXISTS {{ ?memory {ORION.spokenBy.n3()} ?voice FILTER(?voice IN ({values})) }}")
    bounds = [("<=", scope.since), (">", scope.until)]
    compared = [f"{sparql_term(Literal(moment))} {sign} ?occurred" for sign, moment in bounds if moment is not None]
    if compared:
        conditions.append(f"?memory {ORION.occurred.n3()} ?occurred FILTER({' && '.join(compared)})")
    if scope.as_of is not None:
        later = f"?memory {ORION.occurred.n3()} ?after FILTER({sparql_term(Literal(scope.as_of))} < ?after)"
        conditions.append(f"FILTER NOT EXISTS {{ {later} }}")
    return "".join(f". {condition} " for condition in conditions)


def _edge(row: Mapping[str, str]) -> Edge:
    with reading_rows():
        relation = row["relation"]
        return Edge(
            iri=row["edge"],
            subject=row["subject"],
            relation=relation,
            name=row.get("name") or relation.rpartition(":")[2].replace("_", " "),
            object=row["object"],
            text=row["text"],
            weight=_number(row, "weight") or 1.0,
            seen=_number(row, "seen"),
            during=row["during"] == "true" if "during" in row else None,
        )


def _number(row: Mapping[str, str], name: str) -> float | None:
    try:
        return float(row[name]) if name in row else None
    except ValueError as error:
        raise SourceError(
            f"the graph holds a {name} that is not a number: it was not written by orion-recall"
        ) from error


def neighbourhood_query(graph: URIRef, entities: Sequence[URIRef], *, scope: Scope, hops: int, each: int) -> str:
    """SPARQL for rows of (seed, hop, memory, text); text is unbound where a memory only mentions the entity.

    `seed` is the entity's place in `entities`, `each` the most rows of a kind for an entity. Only memories in scope
    are found and count towards the limits; the scope's tenant is the graph. IRIs and values enter through rdflib's
    own n3().
    """
    seen = scope_conditions(scope)
    parts: list[str] = []
    for place, entity in enumerate(entities):
        seed = entity.n3()
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory ?text WHERE '
            f"{{ ?s {_ABOUT} {seed} ; {_TEXT} ?text ; {_FROM} ?memory {seen}}} LIMIT {each} }}"
        )
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory WHERE '
            f"{{ ?memory {_MENTIONS} {seed} {seen}}} LIMIT {each} }}"
        )
        if hops >= 2:
            parts.append(
                f'{{ SELECT ("{place}" AS ?seed) ("2" AS ?hop) ?memory ?text WHERE '
                f"{{ {{ SELECT DISTINCT ?other WHERE {{ ?a {_ABOUT} {seed} ; {_ABOUT} ?other "
                f"FILTER(?other != {seed}) }} LIMIT {each} }} "
                f"?s {_ABOUT} ?other ; {_TEXT} ?text ; {_FROM} ?memory {seen}}} LIMIT {each} }}"
            )
    return f"SELECT ?seed ?hop ?memory ?text WHERE {{ GRAPH {graph.n3()} {{ {' UNION '.join(parts)} }} }}"


_SCAN, _EDGES, _MEMORIES, _ROWS = 2_000, 8, 3, 48


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
    found = await view.edges(entities, limit=4 * _EDGES, relations=list(fits), scan=_SCAN)
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
            f"{_FROM} ?memory {seen} {rest} }} LIMIT {_ROWS} }}",
            f"{{ SELECT ?memory ?said ?window WHERE {{ {mentions} {rest} }} LIMIT {_ROWS} }}",
        )
    rows = await TenantGraph(graph, scope.tenant).rows(" UNION ".join(parts))
    with reading_rows():
        return [
            Stated(key_of(row["memory"]), row.get("text", ""), _number(row, "said"), row.get("window"))
            for row in rows
        ]


def _within(since: float | None, until: float | None) -> str:
    bounds = [("<=", since), (">", until)]
    tests = [f"{sparql_term(Literal(at))} {sign} ?said" for sign, at in bounds if at is not None]
    return " && ".join(tests) or "BOUND(?said)"
