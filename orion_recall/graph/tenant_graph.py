"""Bounded reads from one tenant's graph: entities, relations, edges, and the memories behind edges.

Each node has a sub-select with its own limit: a node with fifty thousand edges costs what one with fifty does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rdflib import Literal, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.errors import ScopeNotKept, SourceError
from orion_recall.graph.vocabulary import (
    ORION,
    TELLS,
    UNEXPECTED_ROWS,
    edge_tells,
    entity_iri,
    sparql_term,
    tenant_graph,
)
from orion_recall.values import Scope, TimeRange

MOST_RELATIONS = 5_000
_AT_ONCE = 64
_LABEL, _ALSO, _MERGED = SKOS.prefLabel.n3(), SKOS.altLabel.n3(), SKOS.hiddenLabel.n3()
_SUBJECT, _PREDICATE, _OBJECT = RDF.subject.n3(), RDF.predicate.n3(), RDF.object.n3()
_ABOUT, _TEXT, _WEIGHT = ORION.about.n3(), ORION.text.n3(), ORION.weight.n3()


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
        """The end opposite to this one."""
        return self.object if end == self.subject else self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeMemory:
    """A memory that is evidence of an edge; `told` are the windows that its text tells (`graph.told_windows`)."""

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

    async def edges(
        self,
        nodes: Sequence[str],
        *,
        limit: int,
        relations: Mapping[str, Sequence[str]] | None = None,
        scan: int = 0,
        during: Sequence[TimeRange] = (),
    ) -> dict[str, list[Edge]]:
        """The edges at each of the nodes, at most `limit` of each; nodes are read in batches.

        With `relations` (IRIs by node) only edges of these relations, among the first `scan` of the node. With
        `during` (epoch seconds) each edge says whether a memory of it tells of one of these intervals.
        """
        told = f"BIND({edge_tells('?edge', during)} AS ?during)" if during else ""
        found: dict[str, dict[str, Edge]] = {node: {} for node in nodes}
        for start in range(0, len(nodes), _AT_ONCE):
            batch = nodes[start : start + _AT_ONCE]
            parts: list[str] = []
            for place, node in enumerate(batch):
                edges = f"{{ SELECT ?edge WHERE {{ ?edge {_ABOUT} {URIRef(node).n3()} }} LIMIT {scan or limit} }}"
                if relations is not None:
                    if not relations.get(node):
                        continue
                    wanted = ", ".join(URIRef(one).n3() for one in relations[node])
                    # Filtered before anything else is read: of five hundred edges few are of these relations.
                    edges = (
                        f"{{ SELECT ?edge WHERE {{ {edges} ?edge {_PREDICATE} ?relation "
                        f"FILTER(?relation IN ({wanted})) }} LIMIT {limit} }}"
                    )
                parts.append(
                    f'{{ SELECT ("{place}" AS ?place) ?edge ?subject ?relation ?object ?text ?weight ?seen ?name '
                    f"?during WHERE {{ {edges} {_EDGE} {told} }} LIMIT {limit} }}"
                )
            for row in await self.rows(" UNION ".join(parts)) if parts else ():
                edge = _edge(row)
                found[batch[int(row["place"])]].setdefault(edge.iri, edge)
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
        found: dict[str, dict[str, EdgeMemory]] = {edge: {} for edge in edges}
        for start in range(0, len(edges), _AT_ONCE):
            batch = edges[start : start + _AT_ONCE]
            parts = (
                f'{{ SELECT ("{place}" AS ?place) ?id ?text ?ts ?told WHERE {{ '
                f"{{ SELECT ?memory WHERE {{ {URIRef(edge).n3()} {PROV.wasDerivedFrom.n3()} ?memory {seen}}} "
                f"LIMIT {limit} }} "
                f"?memory {ORION.id.n3()} ?id ; {ORION.content.n3()} ?text "
                f"OPTIONAL {{ ?memory {ORION.occurred.n3()} ?ts }} OPTIONAL {{ ?memory {TELLS} ?told }} }} }}"
                for place, edge in enumerate(batch)
            )
            for row in await self.rows(" UNION ".join(parts)):
                told = found[batch[int(_of(row, "place"))]]
                before = told[_of(row, "id")].told if _of(row, "id") in told else ()
                told[_of(row, "id")] = EdgeMemory(
                    id=_of(row, "id"),
                    text=_of(row, "text"),
                    ts=_number(row, "ts"),
                    told=tuple(sorted({*before, row["told"]})) if "told" in row else before,
                )
        return {
            edge: sorted(told.values(), key=lambda one: (-(one.ts or 0.0), one.id)) for edge, told in found.items()
        }

    async def labels(self, entities: Sequence[str]) -> dict[str, str]:
        """The shown names of entities; entities without one are absent."""
        found: dict[str, str] = {}
        for start in range(0, len(entities), 4 * _AT_ONCE):
            values = " ".join(URIRef(one).n3() for one in entities[start : start + 4 * _AT_ONCE])
            for row in await self.rows(f"VALUES ?entity {{ {values} }} ?entity {_LABEL} ?label"):
                entity, label = _of(row, "entity"), _of(row, "label")
                found[entity] = min(label, found.get(entity, label))
        return found

    async def speakers(self, entities: Sequence[str]) -> frozenset[str]:
        """The entities among these that are a speaker of some memory."""
        found: set[str] = set()
        for start in range(0, len(entities), _AT_ONCE):
            batch = entities[start : start + _AT_ONCE]
            parts = (
                f'{{ SELECT ("{place}" AS ?place) WHERE {{ ?memory {ORION.spokenBy.n3()} {URIRef(entity).n3()} }} '
                "LIMIT 1 }"
                for place, entity in enumerate(batch)
            )
            found.update(batch[int(_of(row, "place"))] for row in await self.rows(" UNION ".join(parts)))
        return frozenset(found)

    async def relations(self) -> dict[str, str]:
        """The names of the relations that the graph has, by their IRIs; 5,000 of them at most."""
        rows = await self.rows(
            f"{{ SELECT ?relation ?name WHERE {{ ?relation a {RDF.Property.n3()} ; {_LABEL} ?name }} "
            f"LIMIT {MOST_RELATIONS} }}"
        )
        return {_of(row, "relation"): _of(row, "name") for row in rows}

    async def named(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The entities (IRIs) of each name: by the name itself, folded, a spelling, or a name merged into it."""
        wanted = list(dict.fromkeys(names))
        parts = [
            part
            for place, name in enumerate(wanted)
            for part in (
                f'{{ SELECT ("{place}" AS ?place) ({entity_iri(name).n3()} AS ?entity) WHERE '
                f"{{ {entity_iri(name).n3()} {_LABEL} ?label }} LIMIT 1 }}",
                f'{{ SELECT ("{place}" AS ?place) ?entity WHERE {{ ?entity {_ALSO}|{_MERGED} '
                f"{sparql_term(Literal(name))} }} LIMIT 8 }}",
            )
        ]
        found: dict[str, list[str]] = {name: [] for name in wanted}
        for row in await self.rows(" UNION ".join(parts)) if parts else ():
            entities = found[wanted[int(_of(row, "place"))]]
            if _of(row, "entity") not in entities:
                entities.append(_of(row, "entity"))
        return found

    async def all_labels(self, limit: int) -> dict[str, str]:
        """Names of entities by their IRIs, `limit` of them at most: whichever the engine comes to first."""
        rows = await self.rows(
            f"{{ SELECT ?entity ?label WHERE {{ ?entity a {SKOS.Concept.n3()} ; {_LABEL} ?label }} LIMIT {limit} }}"
        )
        return {_of(row, "entity"): _of(row, "label") for row in rows}


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
    relation = _of(row, "relation")
    return Edge(
        iri=_of(row, "edge"),
        subject=_of(row, "subject"),
        relation=relation,
        name=row.get("name") or relation.rpartition(":")[2].replace("_", " "),
        object=_of(row, "object"),
        text=_of(row, "text"),
        weight=_number(row, "weight") or 1.0,
        seen=_number(row, "seen"),
        during=row["during"] == "true" if "during" in row else None,
    )


def _of(row: Mapping[str, str], name: str) -> str:
    try:
        return row[name]
    except LookupError as error:
        raise SourceError(UNEXPECTED_ROWS) from error


def _number(row: Mapping[str, str], name: str) -> float | None:
    try:
        return float(row[name]) if name in row else None
    except ValueError as error:
        raise SourceError(
            f"the graph holds a {name} that is not a number: it was not written by orion-recall"
        ) from error
