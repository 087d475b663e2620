"""A Cypher tree as one bounded SPARQL SELECT.

The matches first: every way in which hops of one to three can be gone is a branch with nothing but plain patterns
and conditions; no path is of any length, and a limit stands on the branches together. Around them what is returned:
properties, counts, order. Names and values enter as rdflib terms only, variables under names made here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Literal

from rdflib import Literal as Term
from rdflib import URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.graph.cypher.semantics import (
    ALSO,
    LABEL,
    LINKS,
    PROPERTIES,
    SHOWN,
    SORTED_BY,
    Meaning,
)
from orion_recall.graph.cypher.tree import (
    AllOf,
    AnyOf,
    Chain,
    Comparison,
    Condition,
    Item,
    Node,
    Query,
    Relation,
    Word,
)
from orion_recall.graph.kinds import KINDS, telling
from orion_recall.graph.relation_words import folded
from orion_recall.graph.terms import written
from orion_recall.graph.vocabulary import ORION

MOST_MATCHES = 100_000
_MOST_BRANCHES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the graph was asked before: relation names by IRI, entities by the names and likenesses in the query."""

    relations: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    similar: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One returned thing and where it stands in the rows. `parts`: property -> (SPARQL variable, is a number)."""

    name: str
    kind: Literal["entity", "memory", "relation", "property", "count"]
    parts: Mapping[str, tuple[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The SPARQL, and how its rows are read."""

    sparql: str
    columns: tuple[Column, ...]


def compile_query(query: Query, graph: URIRef, known: Known) -> Compiled:
    """The query as SPARQL over one tenant's graph; GraphQueryError for what it cannot mean."""
    return _Compiler(query, graph, known).compiled()


class _Compiler:
    def __init__(self, query: Query, graph: URIRef, known: Known) -> None:
        self._query, self._graph, self._known = query, graph, known
        self._meaning = Meaning(query)
        self._numbers: dict[str, int] = {}
        self._fresh = itertools.count()

    # -- variables

    def _var(self, variable: str) -> str:
        number = self._numbers.setdefault(variable, len(self._numbers))
        return f"?v{number}"

    def _new(self) -> str:
        return f"?x{next(self._fresh)}"

    # -- the matches

    def _branches(self) -> list[str]:
        relations = [relation for chain in self._query.chains for relation in chain.relations]
        ways = list(itertools.islice(
            itertools.product(*(range(one.low, one.high + 1) for one in relations)), _MOST_BRANCHES + 1
        ))  # fmt: skip
        if len(ways) > _MOST_BRANCHES:
            raise self._meaning.wrong("so many hops of several lengths are too many ways together", relations[0].at)
        fixed = self._fixed()
        conditions = self._conditions()
        return [f"{{ {fixed}{self._way(way)}{conditions} }}" for way in ways]

    def _way(self, lengths: Sequence[int]) -> str:
        lengths_left = iter(lengths)
        parts: list[str] = []
        edges: list[str] = []
        for chain in self._query.chains:
            for left, relation, right in zip(chain.nodes, chain.relations, chain.nodes[1:], strict=False):
                parts.append(self._hops(left, relation, right, next(lengths_left), edges))
        parts.extend(f"FILTER({one} != {other}) " for place, one in enumerate(edges) for other in edges[:place])
        return "".join(parts)

    def _hops(self, left: Node, relation: Relation, right: Node, length: int, edges: list[str]) -> str:
        ends = [self._var(left.variable), *(self._new() for _ in range(length - 1)), self._var(right.variable)]
        links = self._meaning.link_names(left, relation, right)
        told: list[str] = []
        for start, end in itertools.pairwise(ends):
            if links:
                told.append(self._link(start, end, links, left, relation))
                continue
            edge = self._var(relation.variable) if length == 1 else self._new()
            edges.append(edge)
            if relation.direction == "either":
                about = ORION.about.n3()
                told.append(f"{edge} {about} {start} . {edge} {about} {end} . FILTER({start} != {end}) ")
            else:
                subject, object_ = (start, end) if relation.direction == "right" else (end, start)
                told.append(f"{edge} {RDF.subject.n3()} {subject} ; {RDF.object.n3()} {object_} . ")
            if relation.types:
                told.append(self._typed(edge, relation.types))
        return "".join(told)

    def _link(self, start: str, end: str, links: Sequence[str], left: Node, relation: Relation) -> str:
        predicates = [ORION[LINKS[name][0]].n3() for name in links]
        backwards = relation.direction == "left" or (
            relation.direction == "either" and self._meaning.kinds[left.variable] == "entity"
        )
        first, second = (end, start) if backwards else (start, end)
        undirected = relation.direction == "either" and LINKS[links[0]][1] == "memory"
        if len(predicates) == 1 and not undirected:
            return f"{first} {predicates[0]} {second} . "
        ways = [*predicates, *(f"^{one}" for one in predicates if undirected)]
        return f"{first} ({'|'.join(ways)}) {second} . "

    def _typed(self, edge: str, types: Sequence[Word]) -> str:
        iris: dict[str, None] = {}
        for word in types:
            wanted = folded(word.text)
            found = [iri for iri, name in self._known.relations.items() if folded(name) == wanted]
            if not found:
                raise self._meaning.wrong(self._no_relation(word.text), word.at)
            iris.update(dict.fromkeys(found))
        if len(iris) == 1:
            return f"{edge} {RDF.predicate.n3()} {URIRef(next(iter(iris))).n3()} . "
        kind, kinds = self._new(), ", ".join(URIRef(one).n3() for one in iris)
        return f"{edge} {RDF.predicate.n3()} {kind} . FILTER({kind} IN ({kinds})) "

    def _no_relation(self, name: str) -> str:
        names = sorted({folded(one) for one in self._known.relations.values()})
        close = get_close_matches(folded(name), names, 5, 0.5) or names[:10]
        there = ", ".join(one.replace(" ", "_").upper() for one in close)
        return f"there is no relation {name} in this graph" + (f": there is {there}" if there else ": it has none")

    def _fixed(self) -> str:
        """What binds variables at once: entities by name or likeness, memories by what they are told to have."""
        parts: list[str] = []
        for condition in self._query.conditions:
            if not isinstance(condition, Comparison):
                continue
            candidates = self._candidates(condition)
            if candidates is not None:
                values = " ".join(URIRef(iri).n3() for iri in candidates)
                parts.append(f"VALUES {self._var(condition.variable)} {{ {values} }} ")
            elif condition.operator == "=" and isinstance(condition.value, str):
                kind, predicate, is_number = self._meaning.property(
                    condition.variable, condition.property, condition.at
                )
                if kind != "entity" and predicate != LABEL and not is_number:
                    parts.append(f"{self._var(condition.variable)} {predicate} {written(Term(condition.value))} . ")
        return "".join(parts)

    def _candidates(self, one: Comparison) -> Sequence[str] | None:
        """The entities that a comparison of names lets through; None when it is another comparison."""
        kind, _, _ = self._meaning.property(one.variable, one.property, one.at)
        if one.operator == "SIMILAR":
            if kind != "entity":
                raise self._meaning.wrong(
                    "SIMILAR compares names of entities: for memories there is `orion-recall ask`", one.at
                )
            return self._known.similar.get(self._text(one), ())
        if kind == "entity" and one.operator == "=":
            return self._known.named.get(self._text(one), ())
        return None

    def _text(self, one: Comparison) -> str:
        if not isinstance(one.value, str):
            raise self._meaning.wrong(f"{one.property} is a text: compare it with one in quotes", one.at)
        return one.value

    def _conditions(self) -> str:
        parts: list[str] = []
        for chain in self._query.chains:
            parts.extend(self._node(chain, node) for node in chain.nodes)
        parts.extend(f"FILTER({self._condition(condition)}) " for condition in self._query.conditions)
        return "".join(dict.fromkeys(parts))

    def _node(self, chain: Chain, node: Node) -> str:
        variable, label = self._var(node.variable), node.label.text if node.label is not None else None
        if self._meaning.kinds[node.variable] == "memory":
            return f"{variable} a {ORION.Memory.n3()} . "
        told = "" if chain.relations and label is None else f"{variable} a {SKOS.Concept.n3()} . "
        speaks = f"EXISTS {{ {self._new()} {ORION.spokenBy.n3()} {variable} }}"
        if label == "Speaker":
            return f"{told}FILTER({speaks}) "
        if label not in KINDS:
            return told
        ends = telling(label, self._known.relations)
        ways = [speaks] if label == "Person" else []
        for end, relations in ((RDF.subject, ends.subject), (RDF.object, ends.object)):
            if relations:
                edge, relation = self._new(), self._new()
                iris = ", ".join(URIRef(one).n3() for one in relations)
                ways.append(
                    f"EXISTS {{ {edge} {end.n3()} {variable} ; {RDF.predicate.n3()} {relation} "
                    f"FILTER({relation} IN ({iris})) }}"
                )
        return f"{told}FILTER({' || '.join(ways) or 'false'}) "

    def _condition(self, condition: Condition) -> str:
        if isinstance(condition, AllOf):
            return "(" + " && ".join(self._condition(part) for part in condition.parts) + ")"
        if isinstance(condition, AnyOf):
            return "(" + " || ".join(self._condition(part) for part in condition.parts) + ")"
        if isinstance(condition, Comparison):
            return self._comparison(condition)
        return f"(!{self._condition(condition.part)})"

    def _comparison(self, one: Comparison) -> str:
        kind, predicate, is_number = self._meaning.property(one.variable, one.property, one.at)
        variable = self._var(one.variable)
        if one.operator in ("=", "<>", "SIMILAR") and kind == "entity":
            same = Comparison(
                variable=one.variable, property=one.property, value=one.value, at=one.at,
                operator="SIMILAR" if one.operator == "SIMILAR" else "=",
            )  # fmt: skip
            candidates = [URIRef(iri).n3() for iri in self._candidates(same) or ()]
            found = f"({variable} IN ({', '.join(candidates)}))" if candidates else "false"
            return f"(!{found})" if one.operator == "<>" else found
        if one.operator == "SIMILAR":
            self._candidates(one)
        value = self._new()
        if kind == "relation" and one.property == "name":
            relation = self._new()
            where = f"{variable} {RDF.predicate.n3()} {relation} . {relation} {LABEL} {value}"
        elif kind == "entity":
            where = f"{variable} {LABEL}|{ALSO} {value}"
        else:
            where = f"{variable} {predicate} {value}"
        test = self._test(one, value, is_number=is_number)
        return (
            f"(!EXISTS {{ {where} FILTER({test}) }})"
            if one.operator == "<>"
            else f"EXISTS {{ {where} FILTER({test}) }}"
        )

    def _test(self, one: Comparison, value: str, *, is_number: bool) -> str:
        operator = "=" if one.operator == "<>" else one.operator
        if is_number:
            if operator not in ("=", "<", "<=", ">", ">="):
                raise self._meaning.wrong(
                    f"{one.property} is a number, which cannot be compared by {operator}", one.at
                )
            return f"{value} {operator} {written(Term(self._number(one)))}"
        text = self._text(one)
        if operator == "=":
            return f"STR({value}) = {written(Term(text))}"
        functions = {"CONTAINS": "CONTAINS", "STARTS WITH": "STRSTARTS", "ENDS WITH": "STRENDS"}
        if operator not in functions:
            raise self._meaning.wrong(f"{one.property} is a text, which cannot be compared by {operator}", one.at)
        return f"{functions[operator]}(LCASE(STR({value})), LCASE({written(Term(text))}))"

    def _number(self, one: Comparison) -> float:
        if isinstance(one.value, str) and one.property != "weight":
            try:
                moment = datetime.fromisoformat(one.value)
            except ValueError:
                moment = None
            if moment is None or moment.tzinfo is None:
                raise self._meaning.wrong(
                    f"{one.property} is a time: write epoch seconds, or '2026-11-22T10:00:00Z' with its zone",
                    one.at,
                )
            return moment.timestamp()
        if isinstance(one.value, str | bool):
            raise self._meaning.wrong(f"{one.property} is a number", one.at)
        return one.value

    # -- what is returned

    def compiled(self) -> Compiled:
        """The whole."""
        query = self._query
        columns = tuple(self._column(item) for item in query.items)
        sorts = [self._sort(item, columns) for item, _ in query.order]
        branches = self._branches()
        counted = any(item.kind == "count" for item in query.items)
        streams = not (counted or query.distinct or query.order)
        matched = [
            self._var(name)
            for name in self._meaning.kinds
            if name not in self._meaning.several and name not in self._meaning.links
        ]
        ends = f"OFFSET {query.skip} LIMIT {query.limit}"
        inner = (
            f"{{ SELECT DISTINCT {' '.join(matched)} WHERE {{ {' UNION '.join(branches)} }} "
            f"{ends if streams else f'LIMIT {MOST_MATCHES}'} }}"
        )
        wanted = dict.fromkeys(
            (variable, name)
            for variable, name in (*self._returned(query.items), *self._returned(s for s, _ in sorts))
        )
        told = inner
        if wanted:
            values = " ".join(
                f"(MIN({self._part(variable, name)}_) AS {self._part(variable, name)})" for variable, name in wanted
            )
            joins = " ".join(self._joined(variable, name) for variable, name in wanted)
            each = " ".join(matched)
            told = f"{{ SELECT {each} {values} WHERE {{ {inner} {joins} }} GROUP BY {each} }}"
        shown: list[str] = []
        groups: list[str] = []
        for item, column in zip(query.items, columns, strict=True):
            for variable, _ in column.parts.values():
                if item.kind == "count":
                    what = (
                        "*"
                        if not item.variable
                        else f"{'DISTINCT ' if item.distinct else ''}{self._var(item.variable)}"
                    )
                    shown.append(f"(COUNT({what}) AS ?{variable})")
                else:
                    shown.append(f"?{variable}")
                    groups.append(f"?{variable}")
        group = f" GROUP BY {' '.join(dict.fromkeys(groups))}" if counted and groups else ""
        order = [
            f"{'DESC' if descending else 'ASC'}({expression})"
            for (_, expression), (_, descending) in zip(sorts, query.order, strict=True)
        ]
        sorting = f" ORDER BY {' '.join(order)}" if order else ""
        sparql = (
            f"SELECT {'DISTINCT ' if query.distinct else ''}{' '.join(dict.fromkeys(shown))} "
            f"WHERE {{ GRAPH {self._graph.n3()} {{ {told} }} }}{group}{sorting} "
            f"{f'LIMIT {query.limit}' if streams else ends}"
        )
        return Compiled(sparql=sparql, columns=columns)

    def _part(self, variable: str, name: str) -> str:
        return f"{self._var(variable)}_{name}"

    def _column(self, item: Item) -> Column:
        if item.kind == "count":
            if item.variable:
                self._meaning.kind(item.variable, item.at)
            number = f"c{next(self._fresh)}"
            return Column(name=item.name, kind="count", parts={"": (number, True)})
        kind = self._meaning.kind(item.variable, item.at)
        if item.kind == "property":
            _, _, is_number = self._meaning.property(item.variable, item.property, item.at)
            part = self._part(item.variable, item.property)[1:]
            return Column(name=item.name, kind="property", parts={"": (part, is_number)})
        parts = {name: (self._part(item.variable, name)[1:], PROPERTIES[kind][name][1]) for name in SHOWN[kind]}
        return Column(name=item.name, kind=kind, parts={"iri": (self._var(item.variable)[1:], False), **parts})

    def _returned(self, items: Iterable[Item]) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        for item in items:
            if item.kind == "property":
                pairs.append((item.variable, item.property))
            elif item.kind == "variable":
                pairs.extend((item.variable, name) for name in SHOWN[self._meaning.kinds[item.variable]])
        return pairs

    def _joined(self, variable: str, name: str) -> str:
        kind = self._meaning.kinds[variable]
        value, thing = f"{self._part(variable, name)}_", self._var(variable)
        if kind == "relation" and name == "name":
            relation = self._new()
            return f"OPTIONAL {{ {thing} {RDF.predicate.n3()} {relation} . {relation} {LABEL} {value} }}"
        return f"OPTIONAL {{ {thing} {PROPERTIES[kind][name][0]} {value} }}"

    def _sort(self, item: Item, columns: Sequence[Column]) -> tuple[Item, str]:
        """What is sorted by: an item of RETURN by its name, or something of MATCH; with the expression for it."""
        by_name = {column.name: (one, column) for one, column in zip(self._query.items, columns, strict=True)}
        wanted = item.name
        if wanted in by_name:
            one, column = by_name[wanted]
            if one.kind == "variable":
                one = _property_of(one, SORTED_BY[self._meaning.kinds[one.variable]])
                return one, self._sorting(one)
            variable, is_number = column.parts[""]
            return one, f"?{variable}" if is_number else f"LCASE(STR(?{variable}))"
        counted = any(one.kind == "count" for one in self._query.items)
        if counted or self._query.distinct or item.kind == "count":
            raise self._meaning.wrong(f"sort by what is returned: {', '.join(by_name)}", item.at)
        if item.kind == "variable":
            item = _property_of(item, SORTED_BY[self._meaning.kind(item.variable, item.at)])
        return item, self._sorting(item)

    def _sorting(self, item: Item) -> str:
        _, _, is_number = self._meaning.property(item.variable, item.property, item.at)
        part = self._part(item.variable, item.property)
        return part if is_number else f"LCASE(STR({part}))"


def _property_of(item: Item, name: str) -> Item:
    return Item(kind="property", variable=item.variable, property=name, name=item.name, at=item.at)
