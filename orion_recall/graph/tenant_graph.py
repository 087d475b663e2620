"""Bounded reads from one tenant's graph: entities, relations, edges, the memories behind them, and statements.

Each node has a sub-select with its own limit: a node with fifty thousand edges costs what one with fifty does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rdflib import Literal, URIRef

from orion_recall.errors import ScopeNotKept
from orion_recall.graph import vocabulary
from orion_recall.graph.relation_words import identifies
from orion_recall.graph.vocabulary import entity_iri, overlap_filter, reading_rows, sparql_term, tenant_graph
from orion_recall.interfaces import GraphStore
from orion_recall.text.normal import memory_key
from orion_recall.values import Scope, TimeRange

_MOST_RELATIONS, _AT_ONCE = 5_000, 64


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


@dataclass(frozen=True, slots=True)
class EdgeMemory:
    """A memory that is evidence of an edge; `told` are the windows that its text tells."""

    id: str
    text: str
    ts: float | None
    told: tuple[str, ...] = ()


class TenantGraph:
    """One tenant's graph in a store. An answer of another shape than its query's is a SourceError."""

    def __init__(self, store: GraphStore, tenant: str) -> None:
        self._store, self.graph = store, tenant_graph(tenant)

    async def rows(self, pattern: str) -> Sequence[Mapping[str, str]]:
        """The rows of a graph pattern, or of a sub-select, matched inside the tenant's graph."""
        inside = f"{{ {pattern} }}" if pattern.startswith("SELECT ") else pattern
        return await self._store.select(
            f"{vocabulary.PREFIXES}SELECT * WHERE {{ GRAPH {self.graph.n3()} {{ {inside} }} }}"
        )

    async def each(self, things: Sequence[str], part: Callable[[str], str]) -> list[tuple[str, Mapping[str, str]]]:
        """The rows of a sub-select (`?a WHERE { … } LIMIT n`) for each of the things; many go into one query."""
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
        told = "?edge prov:wasDerivedFrom ?told_by . ?told_by o:tells ?told_at "
        told = f"BIND(EXISTS {{ {told}FILTER{overlap_filter('?told_at', during)} }} AS ?during)" if during else ""
        wanted = ", ".join(URIRef(one).n3() for one in relations or ())

        def part(node: str) -> str:
            edges = f"{{ SELECT ?edge WHERE {{ ?edge o:about {URIRef(node).n3()} }} LIMIT {scan or limit} }}"
            if relations is not None:
                # Filtered before anything else is read: of five hundred edges few are of these relations.
                edges = (
                    f"{{ SELECT ?edge WHERE {{ {edges} ?edge rdf:predicate ?relation "
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
            f"{{ SELECT ?edge ?weight WHERE {{ {{ SELECT ?edge ?weight WHERE {{ ?edge o:weight ?weight }} "
            f"LIMIT {scan} }} }} ORDER BY DESC(?weight) ?edge LIMIT {limit} }} {_EDGE}"
        )
        return list({edge.iri: edge for edge in map(_edge, rows)}.values())

    async def edge_memories(
        self, edges: Sequence[str], *, limit: int, scope: Scope | None = None
    ) -> dict[str, list[EdgeMemory]]:
        """The memories (in the scope) that are evidence of each edge, at most `limit` of each, newest first."""
        seen = scope_conditions(scope) if scope is not None else ""

        def part(edge: str) -> str:
            evidence = f"{URIRef(edge).n3()} prov:wasDerivedFrom ?memory {seen}"
            return (
                f"?id ?text ?ts ?told WHERE {{ {{ SELECT ?memory WHERE {{ {evidence}}} LIMIT {limit} }} "
                "?memory o:id ?id ; o:content ?text "
                "OPTIONAL { ?memory o:occurred ?ts } OPTIONAL { ?memory o:tells ?told } }"
            )

        found: dict[str, dict[str, EdgeMemory]] = {edge: {} for edge in edges}
        for edge, row in await self.each(edges, part):
            with reading_rows():
                one = EdgeMemory(row["id"], row["text"], _number(row, "ts"))
            before = found[edge].get(one.id, one).told
            told = tuple(sorted({*before, row["told"]})) if "told" in row else before
            found[edge][one.id] = replace(one, told=told)
        return {
            edge: sorted(told.values(), key=lambda one: (-(one.ts or 0.0), one.id)) for edge, told in found.items()
        }

    async def labels(self, entities: Sequence[str]) -> dict[str, str]:
        """The shown names of entities; entities without one are absent."""
        found: dict[str, str] = {}
        label = "?label WHERE {{ {} skos:prefLabel ?label }}"
        for entity, row in await self.each(entities, lambda one: label.format(URIRef(one).n3())):
            with reading_rows():
                found[entity] = min(row["label"], found.get(entity, row["label"]))
        return found

    async def speakers(self, entities: Sequence[str]) -> frozenset[str]:
        """The entities among these that are a speaker of some memory."""
        found = await self.each(entities, lambda one: f"WHERE {{ ?memory o:spokenBy {URIRef(one).n3()} }} LIMIT 1")
        return frozenset(one for one, _ in found)

    async def relations(self) -> dict[str, str]:
        """The names of the relations that the graph has, by their IRIs; 5,000 of them at most."""
        return await self.all_labels(_MOST_RELATIONS, "rdf:Property")

    async def all_labels(self, limit: int, kind: str = "skos:Concept") -> dict[str, str]:
        """Names of entities by their IRIs, `limit` of them at most: whichever the engine comes to first."""
        rows = await self.rows(f"SELECT * WHERE {{ ?node a {kind} ; skos:prefLabel ?label }} LIMIT {limit}")
        with reading_rows():
            return {row["node"]: row["label"] for row in rows}

    async def named(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The entities (IRIs) of each name: by the name itself, folded, a spelling, or a name merged into it."""

        def part(name: str) -> str:
            own, spelling = entity_iri(name).n3(), sparql_term(Literal(name))
            itself = f"SELECT ({own} AS ?entity) WHERE {{ {own} skos:prefLabel ?label }} LIMIT 1"
            also = f"SELECT ?entity WHERE {{ ?entity skos:altLabel|skos:hiddenLabel {spelling} }} LIMIT 8"
            return f"?entity WHERE {{ {{ {itself} }} UNION {{ {also} }} }}"

        found: dict[str, list[str]] = {name: [] for name in names}
        for name, row in await self.each(list(found), part):
            with reading_rows():
                if row["entity"] not in found[name]:
                    found[name].append(row["entity"])
        return found


_EDGE = (
    "?edge rdf:subject ?subject ; rdf:predicate ?relation ; rdf:object ?object ; o:text ?text ; o:weight ?weight "
    "OPTIONAL { ?edge o:lastSeen ?seen } OPTIONAL { ?relation skos:prefLabel ?name }"
)


def scope_conditions(scope: Scope) -> str:
    """SPARQL conditions on ?memory for a scope. A memory without a property does not match a condition on it."""
    if scope.told:
        raise ScopeNotKept("the graph cannot be searched by the times that texts tell")
    ids = {"session": scope.session_id, "user": scope.user_id, "agent": scope.agent_id, "run": scope.run_id}
    conditions = [f"?memory o:{name} {sparql_term(Literal(one))}" for name, one in ids.items() if one is not None]
    for name, wanted in (("kind", scope.kinds), ("tag", scope.tags)):
        if wanted:
            values = ", ".join(sparql_term(Literal(value)) for value in wanted)
            conditions.append(f"FILTER EXISTS {{ ?memory o:{name} ?{name} FILTER(?{name} IN ({values})) }}")
    if scope.speakers:
        values = ", ".join(entity_iri(speaker).n3() for speaker in scope.speakers)
        conditions.append(f"FILTER EXISTS {{ ?memory o:spokenBy ?voice FILTER(?voice IN ({values})) }}")
    if scope.since is not None or scope.until is not None:
        conditions.append(f"?memory o:occurred ?occurred FILTER({_within('?occurred', scope.since, scope.until)})")
    if scope.as_of is not None:
        later = f"?memory o:occurred ?after FILTER({sparql_term(Literal(scope.as_of))} < ?after)"
        conditions.append(f"FILTER NOT EXISTS {{ {later} }}")
    return "".join(f". {condition} " for condition in conditions)


def _within(variable: str, since: float | None, until: float | None) -> str:
    bounds = [("<=", since), (">", until)]
    tests = [f"{sparql_term(Literal(at))} {sign} {variable}" for sign, at in bounds if at is not None]
    return " && ".join(tests) or f"BOUND({variable})"


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
    with reading_rows():
        return vocabulary.finite(row[name]) if name in row else None


def neighbourhood(entities: Sequence[URIRef], *, scope: Scope, hops: int, each: int) -> str:
    """A pattern for rows of (seed, hop, memory, text); text is unbound where a memory only mentions the entity.

    `seed` is the entity's place in `entities`, `each` the most rows of a kind for an entity. Only memories in scope
    are found and count towards the limits. IRIs and values enter through rdflib's own n3().
    """
    seen, parts = scope_conditions(scope), list[str]()
    for place, entity in enumerate(entities):
        seed, at = entity.n3(), f'{{ SELECT ("{place}" AS ?seed)'
        stated = f"o:text ?text ; prov:wasDerivedFrom ?memory {seen}}} LIMIT {each} }}"
        parts += (
            f'{at} ("1" AS ?hop) ?memory ?text WHERE {{ ?s o:about {seed} ; {stated}',
            f'{at} ("1" AS ?hop) ?memory WHERE {{ ?memory o:mentions {seed} {seen}}} LIMIT {each} }}',
        )
        if hops >= 2:
            parts.append(
                f'{at} ("2" AS ?hop) ?memory ?text WHERE {{ {{ SELECT DISTINCT ?other WHERE {{ ?a o:about {seed} ; '
                f"o:about ?other FILTER(?other != {seed}) }} LIMIT {each} }} ?s o:about ?other ; {stated}"
            )
    return " UNION ".join(parts)


_SCAN, _EDGES, _MEMORIES, _ROWS = 2_000, 8, 3, 48


class Stated(NamedTuple):
    """A memory (by its key) at an entity: the statement that it is evidence of, "" where it only mentions it.

    `said` is the memory's time, `window` what it tells of the time that was asked for; None where it has none.
    """

    memory: int
    text: str
    said: float | None = None
    window: str | None = None


async def identities(graph: GraphStore, entities: Sequence[str], scope: Scope) -> list[tuple[float, Stated]]:
    """What the entities (IRIs) are, with the fit of the relation in (0, 1], best first; stated in the scope."""
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
    graph: GraphStore, at: Sequence[str], scope: Scope, *, told: Sequence[TimeRange], said: Sequence[TimeRange]
) -> list[Stated]:
    """What memories in the scope state of entities (IRIs), if they tell of one of the intervals `told`, or are
    of one of the intervals `said` (half-open, epoch seconds); and the memories that only mention them.
    """
    tests = ["BOUND(?window)"] if told else []
    tests += [f"({_within('?said', since, until)})" for since, until in said]
    if not tests:
        return []
    seen, parts = scope_conditions(scope), list[str]()
    window = f"OPTIONAL {{ ?memory o:tells ?window FILTER{overlap_filter('?window', told)} }}" if told else ""
    rest = f"OPTIONAL {{ ?memory o:occurred ?said }} {window} FILTER({' || '.join(tests)})"
    for entity in (URIRef(one).n3() for one in at):
        edges = f"{{ SELECT ?edge WHERE {{ ?edge o:about {entity} }} LIMIT {_SCAN} }}"
        mentions = f"{{ SELECT ?memory WHERE {{ ?memory o:mentions {entity} {seen} }} LIMIT {_SCAN} }}"
        parts += (
            f"{{ SELECT ?memory ?text ?said ?window WHERE {{ {edges} ?edge o:text ?text ; "
            f"prov:wasDerivedFrom ?memory {seen} {rest} }} LIMIT {_ROWS} }}",
            f"{{ SELECT ?memory ?said ?window WHERE {{ {mentions} {rest} }} LIMIT {_ROWS} }}",
        )
    rows = await TenantGraph(graph, scope.tenant).rows(" UNION ".join(parts))
    with reading_rows():
        return [
            Stated(vocabulary.key_of(row["memory"]), row.get("text", ""), _number(row, "said"), row.get("window"))
            for row in rows
        ]
