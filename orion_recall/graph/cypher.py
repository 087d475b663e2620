"""A small part of Cypher (https://opencypher.org) over a tenant's graph: parsed, compiled to one SELECT, run.

    MATCH node (relation node)* [WHERE comparison (AND comparison)*] RETURN item (, item)* [LIMIT n] [;]
    node      ([name][:Label][{property: value, …}])
    relation  -[[name][:TYPE|`other type`][*min..max][{property: value, …}]]->, <-[…]-, -[…]- or --
    comparison  name.property = value, or name.property SIMILAR 'text'

The matches are an inner SELECT with a limit: a UNION of branches, one for every combination of hop counts, each of
plain triple patterns and filters, never a path of unbounded length. Names and values enter as rdflib terms only.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple
from typing import Literal as OneOf

import pyparsing as pp
from rapidfuzz import fuzz, process, utils
from rdflib import Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.errors import GraphQueryError, SourceError, TransientSourceError
from orion_recall.graph.relation_words import KINDS, PERSON, folded, kinds_of_ends
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.vocabulary import ORION, sparql_term
from orion_recall.interfaces import GraphStore

MOST_CHARACTERS = 8_000
MOST_HOPS = 5
DEFAULT_LIMIT, MOST_LIMIT = 100, 10_000
_MOST_BRANCHES = 12
_MOST_COMPARED, _MOST_SIMILAR, _LEAST_LIKE = 20_000, 50, 60.0
_IN_SPARQL = "for more than MATCH, WHERE with =, SIMILAR and AND, RETURN and LIMIT: `orion-recall graph sparql`"

SimilarEntities = Callable[[str], Awaitable[Sequence[str]]]
"""The entities (IRIs) of names that are similar to a text, best first."""


class Node(NamedTuple):
    """`(variable:label)`; an unnamed one gets a variable with #. `at`, here and below, is an offset in the text."""

    variable: str
    label: str | None
    at: int


class Relation(NamedTuple):
    """`-[variable:types*low..high]->`."""

    variable: str
    types: tuple[str, ...]
    low: int
    high: int
    direction: OneOf["right", "left", "either"]
    at: int


class Comparison(NamedTuple):
    """`variable.key operator value`, from WHERE or from the properties of a node or relation."""

    variable: str
    key: str
    operator: str
    value: str | float
    at: int


class Item(NamedTuple):
    """An item of RETURN: a property, or a whole variable where `key` is empty."""

    variable: str
    key: str
    at: int

    @property
    def name(self) -> str:
        return f"{self.variable}.{self.key}" if self.key else self.variable


class Query(NamedTuple):
    """A whole query: a relation between each two neighbouring nodes; all `comparisons` must hold."""

    nodes: Sequence[Node]
    relations: Sequence[Relation]
    comparisons: Sequence[Comparison]
    items: Sequence[Item]
    limit: int
    text: str

    def error(self, message: str, at: int) -> GraphQueryError:
        return _error(message, self.text, at)


def parse(text: str) -> Query:
    """The query; GraphQueryError with line, column and what was expected."""
    if len(text) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(text)} characters: {MOST_CHARACTERS} are the most")
    if re.search("[\x00\ud800-\udfff]", text):
        raise GraphQueryError("the query holds a NUL or half a character")
    try:
        parsed: Any = _grammar().parse_string(text, parse_all=True)  # pyright: ignore[reportUnknownMemberType]
    except pp.ParseBaseException as error:
        found = repr(text[error.loc :].split()[0][:40]) if text[error.loc :].strip() else "the query ends"
        wanted = error.msg.removeprefix("Expected ")
        raise _error(f"{found} where {wanted} was expected; {_IN_SPARQL}", text, error.loc) from None
    made: list[Any] = list(parsed)
    items = [one for one in made if isinstance(one, Item)]
    for place, one in enumerate(items):
        if one.name in [other.name for other in items[:place]]:
            raise _error(f"{one.name} is returned twice", text, one.at)
    limit = int(parsed.get("limit", DEFAULT_LIMIT))
    if limit > MOST_LIMIT:
        raise _error(f"LIMIT {limit}: {MOST_LIMIT} is the most", text, text.upper().rfind("LIMIT"))
    nodes = [one for one in made if isinstance(one, Node)]
    relations = [one for one in made if isinstance(one, Relation)]
    comparisons = [one for one in made if isinstance(one, Comparison)]
    return Query(nodes, relations, comparisons, items, limit, text)


def _error(message: str, text: str, at: int) -> GraphQueryError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return GraphQueryError(message, text=text, line=line, column=column)


@cache
def _grammar() -> pp.ParserElement:
    """Its tokens are nodes, relations, comparisons and items; `-` before a part means that it must follow."""

    def keyword(word: str) -> pp.ParserElement:
        return pp.CaselessKeyword(word).set_name(word)

    # A tab counts as one character, so that an error's place is right.
    name = pp.Regex("[A-Za-z_][A-Za-z0-9_]{0,63}").set_name("a name")
    quoted = pp.Regex("`[^`\r\n]{1,200}`").set_parse_action(pp.remove_quotes)
    string = pp.Regex(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL).set_parse_action(_unescaped)
    number = pp.Regex(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?").set_parse_action(_number)
    value = (string | number).set_name("a text in quotes or a number")
    equal = pp.Group(name + ":" - value)
    properties = pp.Opt("{" - pp.DelimitedList(equal)("equal") - "}")
    node = "(" - pp.Opt(name("variable")) + pp.Opt(":" - name("label")) + properties + pp.Literal(")")
    hops = pp.Regex(r"\*\s*(?P<low>[0-9]{1,3})?\s*(?P<dots>\.\.)?\s*(?P<high>[0-9]{1,3})?")
    types = pp.Group(pp.DelimitedList(name | quoted, delim=pp.Regex(r"\|:?")))
    inside = "[" - pp.Opt(name("variable")) + pp.Opt(":" - types("types")) + pp.Opt(hops("hops")) + properties + "]"
    relation = (pp.Literal("<-") | "-")("from") - pp.Opt(inside) - (pp.Literal("->") | "-")("to")
    comparison = name + "." + name + (pp.Literal("=") | keyword("SIMILAR")) - value
    item = name + pp.Opt("." - name)
    for part, action in ((node, _node), (relation, _relation), (comparison, _comparison), (item, _item)):
        part.set_parse_action(action)
    also = pp.ZeroOrMore(keyword("AND").suppress() - comparison)
    filters = pp.Opt(keyword("WHERE").suppress() - comparison + also)
    whole_number = pp.Regex("[0-9]{1,15}").set_name("a whole number")
    ending = pp.Opt(keyword("LIMIT").suppress() - whole_number("limit")) + pp.Opt(pp.Suppress(";"))
    pattern = keyword("MATCH").suppress() - node + pp.ZeroOrMore(relation - node) + filters
    query = pattern + keyword("RETURN").suppress() - pp.DelimitedList(item) + ending
    return query.ignore(pp.Regex(r"//[^\n]*")).parse_with_tabs()


def _number(found: Any) -> float:
    return float(found[0])


def _unescaped(text: str, at: int, found: Any) -> str:
    """The text between quotes; escapes are those of JSON, and of the three quotation marks."""
    quotes = {'"': '\\"', "\\'": "'", "\\`": "`"}
    written = re.sub(r'\\.|"', lambda one: quotes.get(one[0], one[0]), found[0][1:-1], flags=re.DOTALL)
    try:
        plain: str = json.loads(f'"{written}"', strict=False)
        plain.encode()
    except ValueError:
        plain = "\x00"
    if "\x00" in plain:
        raise _error("there is no such escape in this text", text, at)
    return plain


def _equal(found: Any, variable: str, at: int) -> list[Comparison]:
    return [Comparison(variable, one[0], "=", one[2], at) for one in found.get("equal", ())]


def _node(_: str, at: int, found: Any) -> list[Any]:
    node = Node(str(found.get("variable", f"#{at}")), found.get("label"), at)
    return [node, *_equal(found, node.variable, at)]


def _relation(text: str, at: int, found: Any) -> list[Any]:
    low = high = 1
    if "hops" in found:
        least, most = found.get("low"), found.get("high")
        if most is None and not found.get("dots"):
            most = least
        if most is None:
            raise _error(f"say how many hops at most, up to {MOST_HOPS}: *1..{MOST_HOPS}", text, at)
        low, high = int(least or 1), int(most)
        if not 1 <= low <= high <= MOST_HOPS:
            raise _error(f"{low}..{high} hops: from 1 to {MOST_HOPS}, the smaller first", text, at)
    types = tuple(one for one in found.get("types", ()) if not one.startswith("|"))
    direction = "left" if found["from"] == "<-" else "right" if found["to"] == "->" else "either"
    relation = Relation(str(found.get("variable", f"#{at}")), types, low, high, direction, at)
    return [relation, *_equal(found, relation.variable, at)]


def _comparison(_: str, at: int, found: Any) -> Comparison:
    return Comparison(found[0], found[2], found[3], found[4], at)


def _item(_: str, at: int, found: Any) -> Item:
    return Item(found[0], found[2] if len(found) > 1 else "", at)


async def similar_in_graph(store: GraphStore, text: str, tenant: str, limit: int = _MOST_SIMILAR) -> Sequence[str]:
    """Entities (IRIs), of the first 20,000 that the engine gives, whose names are like the text."""
    labels = await TenantGraph(store, tenant).all_labels(_MOST_COMPARED)
    found = process.extract(
        text, labels, scorer=fuzz.token_set_ratio, processor=utils.default_process, limit=limit,
        score_cutoff=_LEAST_LIKE,
    )  # fmt: skip
    return [iri for _, _, iri in sorted(found, key=lambda one: (-one[1], one[2]))]


Cell = str | float | None | Mapping[str, str | float | None]


class QueryResult(NamedTuple):
    """Rows with a cell for each column; a whole entity or relation is a mapping. `sparql` is what ran."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sparql: str


async def run_cypher(
    text: str, store: GraphStore, tenant: str, similar: SimilarEntities, *, timeout_s: float = 10.0
) -> QueryResult:
    """The result; GraphQueryError for an invalid query, TransientSourceError for one that takes too long."""
    query, graph = parse(text), TenantGraph(store, tenant)
    try:
        async with asyncio.timeout(timeout_s):
            compiler = _Compiler(query, await graph.relations())
            names = [str(one.value) for one in query.comparisons if one.key == "name" and one.operator == "="]
            compiler.entities |= {("=", name): found for name, found in (await graph.named(names)).items()}
            for one in query.comparisons:
                if one.operator == "SIMILAR":
                    compiler.entities["SIMILAR", str(one.value)] = await similar(str(one.value))
            sparql = compiler.compiled(graph.graph)
            rows = await store.select(sparql)
    except TimeoutError as error:
        raise TransientSourceError(
            f"the query took longer than {timeout_s:g} s: name an entity, use fewer hops, or allow more time"
        ) from error
    try:
        cells = tuple(tuple(compiler.cell(item, row) for item in query.items) for row in rows)
    except ValueError as error:
        raise SourceError("the graph holds text where a number belongs: orion-recall did not write it") from error
    return QueryResult(columns=tuple(one.name for one in query.items), rows=cells, sparql=sparql)


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


class _Compiler:
    """A query with the relations that the graph has (names by IRI).

    `entities` are IRIs by operator and text of the comparisons of names; none are known while a query is checked.
    """

    def __init__(self, query: Query, relations: Mapping[str, str]) -> None:
        self._query, self._relations = query, relations
        self._kinds: dict[str, Kind] = dict.fromkeys((node.variable for node in query.nodes), "entity")
        for relation in query.relations:
            if relation.variable in self._kinds:
                raise query.error(f"{relation.variable} stands for two things", relation.at)
            self._kinds[relation.variable] = "relation"
        self._numbers = {variable: number for number, variable in enumerate(self._kinds)}
        self._fresh = itertools.count()
        # Several hops are no one edge, so that they have no properties.
        self._bare = {relation.variable for relation in query.relations if relation.high > 1}
        self.entities: dict[tuple[str, str], Sequence[str]] = {}
        self.compiled(URIRef("urn:g"))  # GraphQueryError when it has no meaning: before any name is looked up

    def compiled(self, graph: URIRef) -> str:
        """SPARQL over one tenant's graph: one group of patterns for every combination of hop counts."""
        query, shown = self._query, dict[str, str]()
        for item in query.items:
            variable, kind = self._variable(item.variable), self._kind(item.variable, item.at)
            if not item.key:
                shown[variable] = ""
            for name in (item.key,) if item.key else _SHOWN[kind]:
                column = f"{variable}_{name}"
                shown[column] = f"OPTIONAL {{ {variable} {self._path(item.variable, name, item.at)} {column} }}"
        steps = list(zip(query.nodes, query.relations, query.nodes[1:], strict=False))
        ranges = [range(relation.low, relation.high + 1) for relation in query.relations]
        if math.prod(map(len, ranges)) > _MOST_BRANCHES:
            what = f"more than {_MOST_BRANCHES} ways to choose the numbers of hops: give fewer"
            raise query.error(what, query.relations[0].at)
        nodes = "".join(dict.fromkeys(map(self._node, query.nodes)))
        conditions = "".join(map(self._condition, query.comparisons))
        branches: list[str] = []
        for lengths in itertools.product(*ranges):
            edges: list[str] = []
            hops = "".join(self._hops(*step, length, edges) for step, length in zip(steps, lengths, strict=True))
            once = "".join(f"FILTER({one} != {other}) " for one, other in itertools.combinations(edges, 2))
            branches.append(f"{{ {conditions}{hops}{nodes}{once}}}")
        matched = " ".join(self._variable(name) for name in self._kinds if name not in self._bare)
        limit = f"LIMIT {query.limit}"
        return (
            f"SELECT {' '.join(shown)} WHERE {{ GRAPH {graph.n3()} {{ {{ SELECT DISTINCT {matched} WHERE "
            f"{{ {' UNION '.join(branches)} }} {limit} }} {' '.join(shown.values())} }} }} {limit}"
        )

    def cell(self, item: Item, row: Mapping[str, str]) -> Cell:
        """The value of a returned item; ValueError for a number that is none."""
        variable, kind = self._variable(item.variable)[1:], self._kinds[item.variable]
        if item.key:
            return _value(item.key, row.get(f"{variable}_{item.key}"))
        parts = {name: _value(name, row.get(f"{variable}_{name}")) for name in _SHOWN[kind]}
        return {"is": kind, "iri": row.get(variable), **parts}

    def _variable(self, name: str) -> str:
        """The SPARQL variable of a Cypher variable; no text of the query is in it."""
        return f"?v{self._numbers.get(name, '')}"

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

    def _hops(self, left: Node, relation: Relation, right: Node, length: int, edges: list[str]) -> str:
        """The patterns of a relation of so many hops; `edges` takes the variables of the edges they go along."""
        between = [self._new() for _ in range(length - 1)]
        ends = [self._variable(left.variable), *between, self._variable(right.variable)]
        pattern = ""
        for start, end in itertools.pairwise(ends):
            edge = self._variable(relation.variable) if relation.high == 1 else self._new()
            edges.append(edge)
            if relation.direction == "either":
                about = ORION.about.n3()
                pattern += f"{edge} {about} {start} . {edge} {about} {end} . FILTER({start} != {end}) "
            else:
                subject, object_ = (start, end) if relation.direction == "right" else (end, start)
                pattern += f"{edge} {RDF.subject.n3()} {subject} ; {RDF.object.n3()} {object_} . "
            if relation.types:
                pattern += f"VALUES {(one := self._new())} {{ {self._of_types(relation)} }} "
                pattern += f"{edge} {RDF.predicate.n3()} {one} . "
        return pattern

    def _of_types(self, relation: Relation) -> str:
        names = {iri: folded(name) for iri, name in self._relations.items()}
        wanted = {folded(word): word for word in relation.types}
        known = sorted(set(names.values()))
        for name in sorted(wanted.keys() - set(known)):
            near = get_close_matches(name, known, 5, 0.5) or known[:10]
            listed = ", ".join(one.replace(" ", "_").upper() for one in near) or "none"
            what = f"there is no relation {wanted[name]} in this graph: there is {listed}"
            raise self._query.error(what, relation.at)
        return _iris(iri for iri, name in names.items() if name in wanted)

    def _condition(self, one: Comparison) -> str:
        path, kind = self._path(one.variable, one.key, one.at), self._kinds[one.variable]
        variable = self._variable(one.variable)
        if one.key in _NUMBERS:
            if not isinstance(one.value, float) or one.operator != "=":
                raise self._query.error(f"{one.key} is a number: compare it with one by =", one.at)
            return f"{variable} {path} {(value := self._new())} FILTER({value} = {Literal(one.value).n3()}) "
        if not isinstance(one.value, str):
            raise self._query.error(f"{one.key} is a text: compare it with one in quotes", one.at)
        if kind == "entity":
            return f"VALUES {variable} {{ {_iris(self.entities.get((one.operator, one.value), ()))} }} "
        if one.operator == "SIMILAR":
            raise self._query.error("SIMILAR compares the name of an entity", one.at)
        return f"{variable} {path} {sparql_term(Literal(one.value))} . "

    def _node(self, node: Node) -> str:
        variable, label = self._variable(node.variable), node.label
        if label is not None and label not in LABELS:
            there = f"there are {', '.join(LABELS)}; `orion-recall graph sparql` finds memories"
            raise self._query.error(f"there is no label {label}: {there}", node.at)
        typed = f"{variable} a {SKOS.Concept.n3()} . "
        tests: list[str] = []
        if label in ("Speaker", PERSON):
            tests.append(f"EXISTS {{ {self._new()} {ORION.spokenBy.n3()} {variable} }}")
        kinds = {iri: kinds_of_ends(name) for iri, name in self._relations.items()} if label in KINDS else {}
        for place, end in enumerate((RDF.subject, RDF.object)):
            if iris := ", ".join(URIRef(iri).n3() for iri, both in kinds.items() if both[place] == label):
                edge, relation = self._new(), self._new()
                tests.append(
                    f"EXISTS {{ {edge} {end.n3()} {variable} ; {RDF.predicate.n3()} {relation} "
                    f"FILTER({relation} IN ({iris})) }}"
                )
        return typed if label in (None, "Entity") else f"{typed}FILTER({' || '.join(tests) or 'false'}) "


def _value(name: str, text: str | None) -> str | float | None:
    if text is None or name not in _NUMBERS:
        return text
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _iris(iris: Iterable[str]) -> str:
    return " ".join(URIRef(iri).n3() for iri in iris)
