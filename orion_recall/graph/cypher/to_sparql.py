"""Compiles a Cypher tree to one bounded SPARQL SELECT.

The matches are an inner SELECT with a limit: a UNION of branches, one for every combination of hop counts, each of
plain triple patterns and filters, never a path of unbounded length. Around them stand the properties that RETURN
asks for. Names and values enter as rdflib terms only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal as OneOf

from rdflib import Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.graph.cypher.syntax import Comparison, Item, Node, Place, Query, Relation
from orion_recall.graph.relation_words import KINDS, PERSON, folded, relations_of_kind
from orion_recall.graph.vocabulary import ORION, property_iri, sparql_term

Kind = OneOf["entity", "memory", "relation"]

METADATA = "meta_"
"""What the name of a property begins with that is a field of a memory's metadata."""
LABELS = ("Memory", "Entity", "Speaker", *KINDS)
# The edges that lead from a memory: type in Cypher -> (predicate, kind of the other end).
MEMORY_EDGES: Mapping[str, tuple[str, Kind]] = {
    "MENTIONS": ("mentions", "entity"),
    "SPOKEN_BY": ("spokenBy", "entity"),
    "NEXT": ("next", "memory"),
    "REFERS_TO": ("refersTo", "memory"),
}
_LABEL = SKOS.prefLabel.n3()
# The predicate of every property; of a memory's, those of its own node.
_PROPERTIES: Mapping[Kind, Mapping[str, str]] = {
    "entity": {"name": _LABEL},
    "memory": {
        "id": ORION.id.n3(), "kind": ORION.kind.n3(), "text": ORION.content.n3(), "speaker": ORION.speaker.n3(),
        "ts": ORION.occurred.n3(), "title": ORION.title.n3(), "session": ORION.session.n3(),
        "user": ORION.user.n3(), "agent": ORION.agent.n3(), "run": ORION.run.n3(), "uri": ORION.uri.n3(),
        "tag": ORION.tag.n3(),
    },
    "relation": {
        "name": f"{RDF.predicate.n3()}/{_LABEL}", "text": ORION.text.n3(), "weight": ORION.weight.n3(),
        "firstSeen": ORION.firstSeen.n3(), "lastSeen": ORION.lastSeen.n3(),
    },
}  # fmt: skip
_NUMBERS = frozenset(("ts", "weight", "firstSeen", "lastSeen"))
# The properties that are shown where a whole variable is returned.
_SHOWN: Mapping[Kind, tuple[str, ...]] = {
    "entity": ("name",), "memory": ("id", "kind", "text", "speaker", "ts"), "relation": ("name", "text", "weight"),
}  # fmt: skip
_MOST_BRANCHES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What is looked up before compiling: relation names by IRI; IRIs of entities by a name; IRIs of entities and
    memories by a text for SIMILAR."""

    relations: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    similar: Mapping[tuple[Kind, str], Sequence[str]] = field(default_factory=dict[tuple[Kind, str], Sequence[str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One returned column. `parts` maps a property to its SPARQL variable and whether it is a number."""

    name: str
    kind: OneOf["entity", "memory", "relation", "property"]
    parts: Mapping[str, tuple[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The SPARQL, and how its rows are read."""

    sparql: str
    columns: tuple[Column, ...]


def compile_query(query: Query, graph: URIRef, names: KnownNames) -> Compiled:
    """The query as SPARQL over one tenant's graph. GraphQueryError when the query has no meaning."""
    return _Compiler(query, names).compiled(graph)


def kinds_of(query: Query) -> dict[str, Kind]:
    """The kind of every variable. A node is a memory by its label, anything else an entity.

    A variable that the query leaves unnamed begins with #. GraphQueryError for a query that has no meaning.
    """
    nodes = [node for chain in query.chains for node in chain.nodes]
    kinds: dict[str, Kind] = {node.variable: "memory" for node in nodes if node.label == "Memory"}
    for node in nodes:
        if node.label is not None and node.label not in LABELS:
            close = get_close_matches(node.label.capitalize(), LABELS, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise query.error(f"there is no label {node.label}{hint}: there are {', '.join(LABELS)}", node.at)
        if kinds.setdefault(node.variable, "entity") == "memory" and node.label not in ("Memory", None):
            raise query.error(f"{node.variable} would be both a memory and an entity", node.at)
    for chain in query.chains:
        for relation in chain.relations:
            if relation.variable in kinds:
                raise query.error(f"{relation.variable} stands for two things", relation.at)
            kinds[relation.variable] = "relation"
    return kinds


class _Compiler:
    def __init__(self, query: Query, names: KnownNames) -> None:
        self._query, self._names = query, names
        self._kinds = kinds_of(query)
        self._numbers = {variable: number for number, variable in enumerate(self._kinds)}
        self._fresh = itertools.count()
        # Variables that stand for nothing with properties: several hops, and edges that lead from memories.
        self._bare = self._without_properties()
        # The returned properties: what binds them, by variable.
        self._returned: dict[str, str] = {}

    def compiled(self, graph: URIRef) -> Compiled:
        """The whole SELECT with its columns."""
        columns = tuple(self._column(item) for item in self._query.items)
        matches = " UNION ".join(self._branches())
        matched = " ".join(self._variable(name) for name in self._kinds if name not in self._bare)
        limit = f"LIMIT {self._query.limit}"
        # A property with several values (a tag) would multiply rows: the least one stands for them.
        shown = dict.fromkeys(
            f"(MIN(?{name}_) AS ?{name})" if name in self._returned else f"?{name}"
            for column in columns
            for name, _ in column.parts.values()
        )
        return Compiled(
            sparql=(
                f"SELECT {' '.join(shown)} WHERE {{ GRAPH {graph.n3()} {{ "
                f"{{ SELECT DISTINCT {matched} WHERE {{ {matches} }} {limit} }} "
                f"{' '.join(self._returned.values())} }} }} GROUP BY {matched} {limit}"
            ),
            columns=columns,
        )

    def _variable(self, name: str) -> str:
        """The SPARQL variable of a Cypher variable; no text of the query is in it."""
        return f"?v{self._numbers[name]}"

    def _new(self) -> str:
        return f"?x{next(self._fresh)}"

    def _kind(self, variable: str, at: Place) -> Kind:
        """The kind of a variable of which a property is asked for."""
        if variable in self._bare:
            raise self._query.error("several hops, and edges of memories, have no properties", at)
        if variable not in self._kinds:
            known = ", ".join(sorted(name for name in self._kinds if not name.startswith("#"))) or "none"
            raise self._query.error(f"there is no {variable} in MATCH: there are {known}", at)
        return self._kinds[variable]

    def _path(self, variable: str, name: str, at: Place) -> str:
        """The predicate of a property, or the path to it."""
        kind = self._kind(variable, at)
        if kind == "memory" and name.startswith(METADATA) and name != METADATA:
            return property_iri(name.removeprefix(METADATA)).n3()
        if name not in _PROPERTIES[kind]:
            further = f", and {METADATA}NAME for a field of its metadata" if kind == "memory" else ""
            article = "an" if kind == "entity" else "a"
            known = ", ".join(_PROPERTIES[kind])
            raise self._query.error(f"{article} {kind} has no {name}: it has {known}{further}", at)
        return _PROPERTIES[kind][name]

    def _column(self, item: Item) -> Column:
        kind = self._kind(item.variable, item.at)
        names = (item.property,) if item.property else _SHOWN[kind]
        parts: dict[str, tuple[str, bool]] = {}
        for name in names:
            path, subject = self._path(item.variable, name, item.at), self._variable(item.variable)
            part = f"{subject[1:]}_{name}"
            self._returned[part] = f"OPTIONAL {{ {subject} {path} ?{part}_ }}"
            parts[name] = part, name in _NUMBERS
        if item.property:
            return Column(name=item.name, kind="property", parts={"": parts[item.property]})
        return Column(name=item.name, kind=kind, parts={"iri": (self._variable(item.variable)[1:], False), **parts})

    def _steps(self) -> Iterator[tuple[Node, Relation, Node]]:
        for chain in self._query.chains:
            yield from zip(chain.nodes, chain.relations, chain.nodes[1:], strict=False)

    def _without_properties(self) -> set[str]:
        return {
            relation.variable
            for left, relation, right in self._steps()
            if relation.high > 1 or "memory" in (self._kinds[left.variable], self._kinds[right.variable])
        }

    def _branches(self) -> list[str]:
        """One group of patterns for every combination of hop counts."""
        steps = list(self._steps())
        ranges = [range(relation.low, relation.high + 1) for _, relation, _ in steps]
        if math.prod(map(len, ranges)) > _MOST_BRANCHES:
            raise self._query.error(
                f"more than {_MOST_BRANCHES} ways to choose the numbers of hops: give fewer", steps[0][1].at
            )
        nodes = "".join(dict.fromkeys(self._node(node) for chain in self._query.chains for node in chain.nodes))
        conditions = "".join(self._condition(one) for one in self._query.comparisons)
        branches: list[str] = []
        for lengths in itertools.product(*ranges):
            edges: list[str] = []
            patterns = "".join(self._hops(step, length, edges) for step, length in zip(steps, lengths, strict=True))
            once = "".join(f"FILTER({one} != {other}) " for one, other in itertools.combinations(edges, 2))
            branches.append(f"{{ {conditions}{patterns}{nodes}{once}}}")
        return branches

    def _hops(self, step: tuple[Node, Relation, Node], length: int, edges: list[str]) -> str:
        """The patterns of a relation of so many hops; `edges` takes the variables of the edges they go along."""
        left, relation, right = step
        if "memory" in (self._kinds[left.variable], self._kinds[right.variable]):
            predicate = self._memory_edge(left, relation, right)
        else:
            predicate = None
            if wanted := {word.upper() for word in relation.types} & MEMORY_EDGES.keys():
                raise self._query.error(
                    f"{', '.join(sorted(wanted))}: such edges begin at memories, give one end the label Memory",
                    relation.at,
                )
        between = [self._new() for _ in range(length - 1)]
        ends = [self._variable(left.variable), *between, self._variable(right.variable)]
        parts: list[str] = []
        for start, end in itertools.pairwise(ends):
            if predicate is not None:
                parts.append(f"{start} {predicate} {end} . ")
                continue
            edge = self._variable(relation.variable) if relation.high == 1 else self._new()
            edges.append(edge)
            if relation.direction == "either":
                about = ORION.about.n3()
                parts.append(f"{edge} {about} {start} . {edge} {about} {end} . FILTER({start} != {end}) ")
            else:
                subject, object_ = (start, end) if relation.direction == "right" else (end, start)
                parts.append(f"{edge} {RDF.subject.n3()} {subject} ; {RDF.object.n3()} {object_} . ")
            parts.append(self._of_types(edge, relation) if relation.types else "")
        return "".join(parts)

    def _memory_edge(self, left: Node, relation: Relation, right: Node) -> str:
        """The predicates of an edge that leads from a memory, as a path from left to right."""
        ends = (self._kinds[left.variable], self._kinds[right.variable])
        other: Kind = "memory" if ends == ("memory", "memory") else "entity"
        possible = [name for name, (_, end) in MEMORY_EDGES.items() if end == other]
        wanted = [word.upper() for word in relation.types] or possible
        if unknown := [name for name in wanted if name not in possible]:
            raise self._query.error(
                f"{unknown[0]} leads from no memory to that end: there are {', '.join(possible)}", relation.at
            )
        if other == "entity" and relation.high > 1:
            raise self._query.error("between a memory and an entity there is one hop", relation.at)
        from_left, from_right = relation.direction != "left", relation.direction != "right"
        if other == "entity":
            is_left = ends[0] == "memory"
            if not (from_left if is_left else from_right):
                raise self._query.error(
                    "such an edge leads from the memory to the entity: turn the arrow", relation.at
                )
            from_left, from_right = is_left, not is_left
        predicates = [ORION[MEMORY_EDGES[name][0]].n3() for name in wanted]
        paths = [*predicates] if from_left else []
        paths += [f"^{one}" for one in predicates] if from_right else []
        return f"({'|'.join(paths)})"

    def _of_types(self, edge: str, relation: Relation) -> str:
        names = self._names.relations
        iris: dict[str, None] = {}
        for word in relation.types:
            found = [iri for iri, name in names.items() if folded(name) == folded(word)]
            if not found:
                known = sorted({folded(one) for one in names.values()})
                near = get_close_matches(folded(word), known, 5, 0.5) or known[:10]
                listed = ", ".join(one.replace(" ", "_").upper() for one in near)
                hint = f"there is {listed}" if listed else "it has none"
                raise self._query.error(f"there is no relation {word} in this graph: {hint}", relation.at)
            iris.update(dict.fromkeys(found))
        return f"VALUES {(one := self._new())} {{ {_iris(iris)} }} {edge} {RDF.predicate.n3()} {one} . "

    def _condition(self, one: Comparison) -> str:
        """What binds or tests the variable of a comparison."""
        path, kind = self._path(one.variable, one.property, one.at), self._kinds[one.variable]
        variable = self._variable(one.variable)
        if one.property in _NUMBERS:
            if not isinstance(one.value, float) or one.operator != "=":
                raise self._query.error(f"{one.property} is a number: compare it with one by =", one.at)
            value = self._new()
            return f"{variable} {path} {value} FILTER({value} = {Literal(one.value).n3()}) "
        if not isinstance(one.value, str):
            raise self._query.error(f"{one.property} is a text: compare it with one in quotes", one.at)
        if one.operator == "SIMILAR":
            if (kind, one.property) not in (("entity", "name"), ("memory", "text")):
                raise self._query.error("SIMILAR compares the name of an entity or the text of a memory", one.at)
            return f"VALUES {variable} {{ {_iris(self._names.similar.get((kind, one.value), ()))} }} "
        if kind == "entity":
            return f"VALUES {variable} {{ {_iris(self._names.named.get(one.value, ()))} }} "
        return f"{variable} {path} {sparql_term(Literal(one.value))} . "

    def _node(self, node: Node) -> str:
        """The type of a node, and the filter of its label."""
        variable, label = self._variable(node.variable), node.label
        if self._kinds[node.variable] == "memory":
            return f"{variable} a {ORION.Memory.n3()} . "
        typed = f"{variable} a {SKOS.Concept.n3()} . "
        speaks = f"EXISTS {{ {self._new()} {ORION.spokenBy.n3()} {variable} }}"
        if label == "Speaker":
            return f"{typed}FILTER({speaks}) "
        if label not in KINDS:
            return typed
        tests = [speaks] if label == PERSON else []
        indicating = relations_of_kind(label, self._names.relations)
        for end, relations in zip((RDF.subject, RDF.object), indicating, strict=True):
            if relations:
                edge, relation = self._new(), self._new()
                iris = ", ".join(URIRef(one).n3() for one in relations)
                tests.append(
                    f"EXISTS {{ {edge} {end.n3()} {variable} ; {RDF.predicate.n3()} {relation} "
                    f"FILTER({relation} IN ({iris})) }}"
                )
        return f"{typed}FILTER({' || '.join(tests) or 'false'}) "


def _iris(iris: Iterable[str]) -> str:
    return " ".join(URIRef(iri).n3() for iri in iris)
