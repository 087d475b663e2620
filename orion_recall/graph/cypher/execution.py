"""Executes a Cypher query on a tenant's graph: parse, look names up, compile to one bounded SPARQL SELECT, read.

The matches are an inner SELECT with a limit: a UNION of branches, one for every combination of hop counts, each of
plain triple patterns and filters, never a path of unbounded length. Around them stand the properties that RETURN
asks for. Names and values enter as rdflib terms only.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal as OneOf
from typing import NamedTuple

from rdflib import Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.cypher.syntax import Comparison, Node, Query, Relation, parse
from orion_recall.graph.relation_words import KINDS, PERSON, folded, relations_of_kind, stem
from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import ORION, entity_iri, sparql_term
from orion_recall.interfaces import EntityFinder, EntityLikeness
from orion_recall.text.normal import content_words, words

MOST_COMPARED = 20_000
MOST_SIMILAR = 50
_LEAST_LIKE = 0.34
_NEAR_BEST = 0.4
_LEAST_COSINE = 0.5

SimilarEntities = Callable[[str, str, int], Awaitable[Sequence[str]]]
"""By a text, a tenant and a limit: the entities of similar names (IRIs), best first."""


async def similar_in_index(
    text: str, tenant: str, limit: int, *, finder: EntityFinder, meaning: EntityLikeness
) -> Sequence[str]:
    """Entities with two fifths of the best score by words or more, then those with a cosine of 0.5 or more."""
    found = await finder.find_entities(text, tenant, limit)
    best = max((score for _, score in found), default=0.0)
    by_words = [label for label, score in found if score >= best * _NEAR_BEST]
    try:
        meant = await meaning.entities_like(text, tenant, limit)
    except SourceError:
        if not by_words:
            raise  # the graph may answer
        meant = ()
    by_meaning = [label for label, cosine in meant if cosine >= _LEAST_COSINE]
    return list(dict.fromkeys(str(entity_iri(label)) for label in (*by_words, *by_meaning)))[:limit]


async def similar_in_graph(store: Queryable, text: str, tenant: str, limit: int) -> Sequence[str]:
    """Entities, of the first 20,000 in the engine's order, that share a stem or many letters with the text."""
    labels = await TenantGraph(store, tenant).all_labels(MOST_COMPARED)
    scored = [(likeness(text, label), iri) for iri, label in labels.items()]
    return [iri for score, iri in sorted(scored, key=lambda one: (-one[0], one[1])) if score >= _LEAST_LIKE][:limit]


def likeness(one: str, other: str) -> float:
    """The similarity of two names in [0, 1]: the greater of the overlap of stems and that of letter trigrams."""
    stems, others = _stems(one), _stems(other)
    shared = len(stems & others)
    by_words = shared / min(len(stems), len(others)) if shared else 0.0
    letters, other_letters = _letters(one), _letters(other)
    both = len(letters & other_letters)
    by_letters = 2 * both / (len(letters) + len(other_letters)) if both else 0.0
    return max(0.99 * by_words if stems != others else by_words, by_letters)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in (content_words(text) or words(text)))


def _letters(text: str) -> frozenset[str]:
    padded = f"  {' '.join(words(text))[:200]} "
    return frozenset(padded[place : place + 3] for place in range(len(padded) - 2))


Cell = str | float | None | Mapping[str, str | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows with a cell for each column; a whole entity or relation is a mapping. `sparql` is what ran."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sparql: str


async def run_cypher(
    text: str, store: Queryable, tenant: str, similar: SimilarEntities, *, timeout_s: float = 10.0
) -> QueryResult:
    """The result of a Cypher query.

    GraphQueryError for an invalid query, SourceError when the graph cannot be queried, TransientSourceError when it
    takes longer than `timeout_s` seconds.
    """
    query, graph = parse(text), TenantGraph(store, tenant)
    names = [str(one.value) for one in query.comparisons if one.property == "name" and one.operator == "="]
    likenesses = {str(one.value) for one in query.comparisons if one.operator == "SIMILAR"}
    try:
        async with asyncio.timeout(timeout_s):
            relations = await graph.relations()
            # Compiled once before any name is looked up, so that an invalid query costs one query to the graph.
            compile_query(query, graph.graph, KnownNames(relations, {}, {}))
            found = {one: await similar(one, tenant, MOST_SIMILAR) for one in likenesses}
            compiled = compile_query(query, graph.graph, KnownNames(relations, await graph.named(names), found))
            rows = await store.select(compiled.sparql)
    except TimeoutError as error:
        raise TransientSourceError(
            f"the query took longer than {timeout_s:g} s: name an entity, use fewer hops, or allow more time"
        ) from error
    try:
        cells = tuple(tuple(_cell(column, row) for column in compiled.columns) for row in rows)
    except ValueError as error:
        raise SourceError(
            "the graph holds text where a number belongs: it was not written by orion-recall"
        ) from error
    return QueryResult(columns=tuple(one.name for one in compiled.columns), rows=cells, sparql=compiled.sparql)


def _cell(column: Column, row: Mapping[str, str]) -> Cell:
    parts = {name: _value(name, row.get(variable)) for name, variable in column.parts.items()}
    return {"is": column.kind, **parts} if column.is_whole else next(iter(parts.values()))


def _value(name: str, text: str | None) -> str | float | None:
    if text is None or name not in _NUMBERS:
        return text
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


Kind = OneOf["entity", "relation"]

LABELS = ("Entity", "Speaker", *KINDS)
_LABEL = SKOS.prefLabel.n3()
# The predicate of every property, or the path to it.
_PROPERTIES: Mapping[Kind, Mapping[str, str]] = {
    "entity": {"name": _LABEL},
    "relation": {
        "name": f"{RDF.predicate.n3()}/{_LABEL}", "text": ORION.text.n3(), "weight": ORION.weight.n3(),
        "firstSeen": ORION.firstSeen.n3(), "lastSeen": ORION.lastSeen.n3(),
    },
}  # fmt: skip
_NUMBERS = frozenset(("weight", "firstSeen", "lastSeen"))
# The properties that are shown where a whole variable is returned.
_SHOWN: Mapping[Kind, tuple[str, ...]] = {"entity": ("name",), "relation": ("name", "text", "weight")}
_MOST_BRANCHES = 12


class KnownNames(NamedTuple):
    """What is looked up before compiling: relation names by IRI, and entities (IRIs) by name or similarity."""

    relations: Mapping[str, str]
    named: Mapping[str, Sequence[str]]
    similar: Mapping[str, Sequence[str]]


class Column(NamedTuple):
    """One returned column: a property, or a whole entity or relation. `parts` are SPARQL variables by property."""

    name: str
    kind: Kind
    is_whole: bool
    parts: Mapping[str, str]


class Compiled(NamedTuple):
    """The SPARQL, and how its rows are read."""

    sparql: str
    columns: tuple[Column, ...]


def compile_query(query: Query, graph: URIRef, names: KnownNames) -> Compiled:
    """The query as SPARQL over one tenant's graph. GraphQueryError when the query has no meaning."""
    return _Compiler(query, names).compiled(graph)


class _Compiler:
    def __init__(self, query: Query, names: KnownNames) -> None:
        self._query, self._names = query, names
        self._kinds: dict[str, Kind] = dict.fromkeys((node.variable for node in query.nodes), "entity")
        for relation in query.relations:
            if relation.variable in self._kinds:
                raise query.error(f"{relation.variable} stands for two things", relation.at)
            self._kinds[relation.variable] = "relation"
        self._numbers = {variable: number for number, variable in enumerate(self._kinds)}
        self._fresh = itertools.count()
        # Several hops are no one edge, so that they have no properties.
        self._bare = {relation.variable for relation in query.relations if relation.high > 1}
        # The returned properties: what binds them.
        self._returned: dict[str, None] = {}

    def compiled(self, graph: URIRef) -> Compiled:
        columns = tuple(
            self._column(item.name, item.variable, item.property, item.at) for item in self._query.items
        )
        matches = " UNION ".join(self._branches())
        matched = " ".join(self._variable(name) for name in self._kinds if name not in self._bare)
        limit = f"LIMIT {self._query.limit}"
        shown = dict.fromkeys(f"?{variable}" for column in columns for variable in column.parts.values())
        sparql = (
            f"SELECT {' '.join(shown)} WHERE {{ GRAPH {graph.n3()} {{ "
            f"{{ SELECT DISTINCT {matched} WHERE {{ {matches} }} {limit} }} "
            f"{' '.join(self._returned)} }} }} {limit}"
        )
        return Compiled(sparql, columns)

    def _variable(self, name: str) -> str:
        """The SPARQL variable of a Cypher variable; no text of the query is in it."""
        return f"?v{self._numbers[name]}"

    def _new(self) -> str:
        return f"?x{next(self._fresh)}"

    def _path(self, variable: str, name: str, at: int) -> str:
        if name in (known := _PROPERTIES[self._kind(variable, at)]):
            return known[name]
        what = "an entity" if self._kinds[variable] == "entity" else "a relation"
        raise self._query.error(f"{what} has no {name}: it has {', '.join(known)}", at)

    def _kind(self, variable: str, at: int) -> Kind:
        if variable in self._bare:
            raise self._query.error("several hops have no properties", at)
        if variable not in self._kinds:
            known = ", ".join(sorted(name for name in self._kinds if not name.startswith("#"))) or "none"
            raise self._query.error(f"there is no {variable} in MATCH: there are {known}", at)
        return self._kinds[variable]

    def _column(self, shown: str, variable: str, wanted: str, at: int) -> Column:
        kind, parts = self._kind(variable, at), dict[str, str]()
        subject = self._variable(variable)
        for name in (wanted,) if wanted else _SHOWN[kind]:
            parts[name] = f"{subject[1:]}_{name}"
            self._returned[f"OPTIONAL {{ {subject} {self._path(variable, name, at)} ?{subject[1:]}_{name} }}"] = (
                None
            )
        return Column(shown, kind, not wanted, parts if wanted else {"iri": subject[1:], **parts})

    def _branches(self) -> list[str]:
        """One group of patterns for every combination of hop counts."""
        steps = list(zip(self._query.nodes, self._query.relations, self._query.nodes[1:], strict=False))
        ranges = [range(relation.low, relation.high + 1) for _, relation, _ in steps]
        if math.prod(map(len, ranges)) > _MOST_BRANCHES:
            raise self._query.error(
                f"more than {_MOST_BRANCHES} ways to choose the numbers of hops: give fewer", steps[0][1].at
            )
        nodes = "".join(dict.fromkeys(self._node(node) for node in self._query.nodes))
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
        between = [self._new() for _ in range(length - 1)]
        ends = [self._variable(left.variable), *between, self._variable(right.variable)]
        parts: list[str] = []
        for start, end in itertools.pairwise(ends):
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
        path, kind = self._path(one.variable, one.property, one.at), self._kinds[one.variable]
        variable = self._variable(one.variable)
        if one.property in _NUMBERS:
            if not isinstance(one.value, float) or one.operator != "=":
                raise self._query.error(f"{one.property} is a number: compare it with one by =", one.at)
            value = self._new()
            return f"{variable} {path} {value} FILTER({value} = {Literal(one.value).n3()}) "
        if not isinstance(one.value, str):
            raise self._query.error(f"{one.property} is a text: compare it with one in quotes", one.at)
        if kind == "entity":
            found = self._names.similar if one.operator == "SIMILAR" else self._names.named
            return f"VALUES {variable} {{ {_iris(found.get(one.value, ()))} }} "
        if one.operator == "SIMILAR":
            raise self._query.error("SIMILAR compares the name of an entity", one.at)
        return f"{variable} {path} {sparql_term(Literal(one.value))} . "

    def _node(self, node: Node) -> str:
        variable, label = self._variable(node.variable), node.label
        if label == "Memory":
            raise self._query.error(
                "this Cypher has no memories: ask for them in SPARQL (`orion-recall graph sparql`)", node.at
            )
        if label is not None and label not in LABELS:
            close = get_close_matches(label.capitalize(), LABELS, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise self._query.error(f"there is no label {label}{hint}: there are {', '.join(LABELS)}", node.at)
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
