"""Compiles a Cypher tree to one bounded SPARQL SELECT.

The matches are an inner SELECT with a limit: a UNION of branches, one for every combination of hop counts, each of
plain triple patterns and filters, never a path of unbounded length. Around them stands what RETURN asks for:
properties, counts, order. Names and values enter as rdflib terms only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Literal as OneOf

from rdflib import Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.graph.cypher.semantics import (
    ALT_LABEL,
    DEFAULT_SORT,
    LABEL,
    MEMORY_EDGES,
    PROPERTIES,
    SHOWN,
    TOLD,
    CompileContext,
    KnownNames,
    is_own,
)
from orion_recall.graph.cypher.syntax import (
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
from orion_recall.graph.relation_words import KINDS, folded, relations_of_kind
from orion_recall.graph.vocabulary import ORION, overlap_filter, range_of, sparql_term

_TEXT_FUNCTIONS = {"CONTAINS": "CONTAINS", "STARTS WITH": "STRSTARTS", "ENDS WITH": "STRENDS"}


class WhereClause:
    """Compiles conditions one at a time."""

    def __init__(self, context: CompileContext) -> None:
        self._context, self._semantics = context, context.semantics

    def expression(self, condition: Condition) -> str:
        """A boolean SPARQL expression."""
        if isinstance(condition, AllOf):
            return "(" + " && ".join(self.expression(part) for part in condition.parts) + ")"
        if isinstance(condition, AnyOf):
            return "(" + " || ".join(self.expression(part) for part in condition.parts) + ")"
        if isinstance(condition, Comparison):
            return self._comparison(condition)
        return f"(!{self.expression(condition.part)})"

    def candidates(self, comparison: Comparison) -> Sequence[str] | None:
        """The nodes (IRIs) that a comparison of names, or by SIMILAR, admits; None for another comparison."""
        kind, _, _ = self._semantics.property(comparison.variable, comparison.property, comparison.at)
        if comparison.operator == "SIMILAR":
            if (kind, comparison.property) not in (("entity", "name"), ("memory", "text")):
                raise self._semantics.error(
                    "SIMILAR compares the name of an entity or the text of a memory", comparison.at
                )
            known = self._context.names
            found = known.similar if kind == "entity" else known.similar_memories
            return found.get(self._text(comparison), ())
        if kind == "entity" and comparison.operator == "=":
            return self._context.names.named.get(self._text(comparison), ())
        return None

    def _comparison(self, comparison: Comparison) -> str:
        kind, predicate, is_number = self._semantics.property(
            comparison.variable, comparison.property, comparison.at
        )
        variable = self._context.variable(comparison.variable)
        if comparison.operator == "SIMILAR" or (comparison.operator in ("=", "<>") and kind == "entity"):
            return self._one_of(comparison, variable)
        value = self._context.fresh()
        if kind == "relation" and comparison.property == "name":
            relation = self._context.fresh()
            pattern = f"{variable} {RDF.predicate.n3()} {relation} . {relation} {LABEL} {value}"
        elif kind == "entity":
            pattern = f"{variable} {LABEL}|{ALT_LABEL} {value}"
        else:
            pattern = f"{variable} {predicate} {value}"
        exists = f"EXISTS {{ {pattern} FILTER({self._test(comparison, value, is_number=is_number)}) }}"
        return f"(!{exists})" if comparison.operator == "<>" else exists

    def _one_of(self, comparison: Comparison, variable: str) -> str:
        equal = Comparison(
            variable=comparison.variable, property=comparison.property, value=comparison.value, at=comparison.at,
            operator="SIMILAR" if comparison.operator == "SIMILAR" else "=",
        )  # fmt: skip
        candidates = [URIRef(iri).n3() for iri in self.candidates(equal) or ()]
        is_one_of = f"({variable} IN ({', '.join(candidates)}))" if candidates else "false"
        return f"(!{is_one_of})" if comparison.operator == "<>" else is_one_of

    def _test(self, comparison: Comparison, value: str, *, is_number: bool) -> str:
        operator = "=" if comparison.operator == "<>" else comparison.operator
        if operator == "DURING":
            return self._during(comparison, value)
        if is_number:
            if operator not in ("=", "<", "<=", ">", ">="):
                raise self._semantics.error(
                    f"{comparison.property} is a number, which cannot be compared by {operator}", comparison.at
                )
            return f"{value} {operator} {sparql_term(Literal(self._number(comparison)))}"
        text = sparql_term(Literal(self._text(comparison)))
        if operator == "=":
            return f"STR({value}) = {text}"
        if operator not in _TEXT_FUNCTIONS:
            raise self._semantics.error(
                f"{comparison.property} is a text, which cannot be compared by {operator}", comparison.at
            )
        return f"{_TEXT_FUNCTIONS[operator]}(LCASE(STR({value})), LCASE({text}))"

    def _during(self, comparison: Comparison, value: str) -> str:
        if comparison.property != TOLD:
            raise self._semantics.error(f"DURING compares what is {TOLD}, not {comparison.property}", comparison.at)
        try:
            return overlap_filter(value, [range_of(self._text(comparison))])
        except ValueError as error:
            raise self._semantics.error(
                f"{comparison.value!r} is no time ({error}): write '2026', '2026-05', '2026-05-12', or "
                "'2026-05-01/2026-05-12'",
                comparison.at,
            ) from error

    def _text(self, comparison: Comparison) -> str:
        if not isinstance(comparison.value, str):
            raise self._semantics.error(
                f"{comparison.property} is a text: compare it with one in quotes", comparison.at
            )
        return comparison.value

    def _number(self, comparison: Comparison) -> float:
        if isinstance(comparison.value, str) and comparison.property != "weight":
            try:
                moment = datetime.fromisoformat(comparison.value)
            except ValueError:
                moment = None
            if moment is None or moment.tzinfo is None:
                raise self._semantics.error(
                    f"{comparison.property} is a time: write epoch seconds, or '2026-11-22T10:00:00Z' with its "
                    "zone",
                    comparison.at,
                )
            return moment.timestamp()
        if isinstance(comparison.value, str | bool):
            raise self._semantics.error(f"{comparison.property} is a number", comparison.at)
        return comparison.value


_MOST_BRANCHES = 12


class MatchClause:
    """Compiles the patterns of the query together with its conditions."""

    def __init__(self, context: CompileContext) -> None:
        self._context, self._semantics = context, context.semantics
        self._where = WhereClause(context)

    def branches(self) -> list[str]:
        """The branches of a UNION. GraphQueryError for more than 12 combinations of hop counts."""
        chains = self._context.query.chains
        relations = [relation for chain in chains for relation in chain.relations]
        combinations = list(itertools.islice(
            itertools.product(*(range(one.low, one.high + 1) for one in relations)), _MOST_BRANCHES + 1
        ))  # fmt: skip
        if len(combinations) > _MOST_BRANCHES:
            raise self._semantics.error(
                f"the hop counts combine in more than {_MOST_BRANCHES} ways: use fewer variable lengths",
                relations[0].at,
            )
        bindings = self._bindings()
        filters = self._filters()
        return [f"{{ {bindings}{self._patterns(lengths)}{filters} }}" for lengths in combinations]

    def _patterns(self, lengths: Sequence[int]) -> str:
        remaining = iter(lengths)
        parts: list[str] = []
        edges: list[str] = []
        for chain in self._context.query.chains:
            for left, relation, right in zip(chain.nodes, chain.relations, chain.nodes[1:], strict=False):
                parts.append(self._hops(left, relation, right, next(remaining), edges))
        parts.extend(f"FILTER({one} != {other}) " for place, one in enumerate(edges) for other in edges[:place])
        return "".join(parts)

    def _hops(self, left: Node, relation: Relation, right: Node, length: int, edges: list[str]) -> str:
        context = self._context
        between = (context.fresh() for _ in range(length - 1))
        ends = [context.variable(left.variable), *between, context.variable(right.variable)]
        memory_edges = self._semantics.memory_edges(left, relation, right)
        parts: list[str] = []
        for start, end in itertools.pairwise(ends):
            if memory_edges:
                parts.append(self._memory_edge(start, end, memory_edges, left, relation))
                continue
            edge = context.variable(relation.variable) if length == 1 else context.fresh()
            edges.append(edge)
            if relation.direction == "either":
                about = ORION.about.n3()
                parts.append(f"{edge} {about} {start} . {edge} {about} {end} . FILTER({start} != {end}) ")
            else:
                subject, object_ = (start, end) if relation.direction == "right" else (end, start)
                parts.append(f"{edge} {RDF.subject.n3()} {subject} ; {RDF.object.n3()} {object_} . ")
            if relation.types:
                parts.append(self._of_types(edge, relation.types))
        return "".join(parts)

    def _memory_edge(self, start: str, end: str, names: Sequence[str], left: Node, relation: Relation) -> str:
        predicates = [ORION[MEMORY_EDGES[name][0]].n3() for name in names]
        is_reversed = relation.direction == "left" or (
            relation.direction == "either" and self._semantics.kinds[left.variable] == "entity"
        )
        subject, object_ = (end, start) if is_reversed else (start, end)
        undirected = relation.direction == "either" and MEMORY_EDGES[names[0]][1] == "memory"
        if len(predicates) == 1 and not undirected:
            return f"{subject} {predicates[0]} {object_} . "
        alternatives = [*predicates, *(f"^{one}" for one in predicates if undirected)]
        return f"{subject} ({'|'.join(alternatives)}) {object_} . "

    def _of_types(self, edge: str, types: Sequence[Word]) -> str:
        iris: dict[str, None] = {}
        for word in types:
            wanted = folded(word.text)
            found = [iri for iri, name in self._context.names.relations.items() if folded(name) == wanted]
            if not found:
                raise self._semantics.error(self._unknown_relation(word.text), word.at)
            iris.update(dict.fromkeys(found))
        if len(iris) == 1:
            return f"{edge} {RDF.predicate.n3()} {URIRef(next(iter(iris))).n3()} . "
        relation, wanted = self._context.fresh(), ", ".join(URIRef(one).n3() for one in iris)
        return f"{edge} {RDF.predicate.n3()} {relation} . FILTER({relation} IN ({wanted})) "

    def _unknown_relation(self, name: str) -> str:
        names = sorted({folded(one) for one in self._context.names.relations.values()})
        close = get_close_matches(folded(name), names, 5, 0.5) or names[:10]
        listed = ", ".join(one.replace(" ", "_").upper() for one in close)
        return f"there is no relation {name} in this graph" + (
            f": there is {listed}" if listed else ": it has none"
        )

    def _bindings(self) -> str:
        """Patterns that bind variables first: entities by name or likeness, memories by equal properties."""
        parts: list[str] = []
        for condition in self._context.query.conditions:
            if not isinstance(condition, Comparison):
                continue
            variable = self._context.variable
            candidates = self._where.candidates(condition)
            if candidates is not None:
                values = " ".join(URIRef(iri).n3() for iri in candidates)
                parts.append(f"VALUES {variable(condition.variable)} {{ {values} }} ")
            elif condition.operator == "=" and isinstance(condition.value, str):
                kind, predicate, is_number = self._semantics.property(
                    condition.variable, condition.property, condition.at
                )
                if kind != "entity" and predicate != LABEL and not is_number:
                    value = sparql_term(Literal(condition.value))
                    parts.append(f"{variable(condition.variable)} {predicate} {value} . ")
        return "".join(parts)

    def _filters(self) -> str:
        query = self._context.query
        parts = [self._node(chain, node) for chain in query.chains for node in chain.nodes]
        parts += [f"FILTER({self._where.expression(condition)}) " for condition in query.conditions]
        return "".join(dict.fromkeys(parts))

    def _node(self, chain: Chain, node: Node) -> str:
        """The type of a node, and the filter of its label."""
        context = self._context
        variable, label = context.variable(node.variable), node.label.text if node.label is not None else None
        if self._semantics.kinds[node.variable] == "memory":
            own = ""
            if node.label is not None and is_own(node.label):
                wanted = sparql_term(Literal(node.label.text))
                own = f"FILTER EXISTS {{ {variable} {ORION.kind.n3()}|{ORION.tag.n3()} {wanted} }} "
            return f"{variable} a {ORION.Memory.n3()} . {own}"
        typed = "" if chain.relations and label is None else f"{variable} a {SKOS.Concept.n3()} . "
        speaks = f"EXISTS {{ {context.fresh()} {ORION.spokenBy.n3()} {variable} }}"
        if label == "Speaker":
            return f"{typed}FILTER({speaks}) "
        if label not in KINDS:
            return typed
        indicating = relations_of_kind(label, context.names.relations)
        tests = [speaks] if label == "Person" else []
        for end, relations in ((RDF.subject, indicating.subject), (RDF.object, indicating.object)):
            if relations:
                edge, relation = context.fresh(), context.fresh()
                iris = ", ".join(URIRef(one).n3() for one in relations)
                tests.append(
                    f"EXISTS {{ {edge} {end.n3()} {variable} ; {RDF.predicate.n3()} {relation} "
                    f"FILTER({relation} IN ({iris})) }}"
                )
        return f"{typed}FILTER({' || '.join(tests) or 'false'}) "


MOST_MATCHES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One returned column. `parts` maps a property to its SPARQL variable and whether it is a number."""

    name: str
    kind: OneOf["entity", "memory", "relation", "property", "count"]
    parts: Mapping[str, tuple[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The SPARQL, and how its rows are read."""

    sparql: str
    columns: tuple[Column, ...]


def compile_query(query: Query, graph: URIRef, names: KnownNames) -> Compiled:
    """The query as SPARQL over one tenant's graph. GraphQueryError when the query has no meaning."""
    return _ReturnClause(CompileContext(query, names), graph).compiled()


class _ReturnClause:
    def __init__(self, context: CompileContext, graph: URIRef) -> None:
        self._context, self._graph = context, graph
        self._query, self._semantics = context.query, context.semantics
        self._counts = any(item.kind == "count" for item in self._query.items)

    def compiled(self) -> Compiled:
        """The whole SELECT with its columns."""
        query = self._query
        columns = tuple(self._column(item) for item in query.items)
        sorts = [self._sort(item, columns) for item, _ in query.order]
        branches = MatchClause(self._context).branches()
        # Without counting, DISTINCT or order the inner SELECT can stop at the page that is wanted.
        streams = not (self._counts or query.distinct or query.order)
        page = f"OFFSET {query.skip} LIMIT {query.limit}"
        rows = self._with_properties(branches, page if streams else f"LIMIT {MOST_MATCHES}", sorts)
        shown, groups = self._shown(columns)
        group = f" GROUP BY {' '.join(dict.fromkeys(groups))}" if self._counts and groups else ""
        order = [
            f"{'DESC' if descending else 'ASC'}({expression})"
            for (_, expression), (_, descending) in zip(sorts, query.order, strict=True)
        ]
        sorting = f" ORDER BY {' '.join(order)}" if order else ""
        sparql = (
            f"SELECT {'DISTINCT ' if query.distinct else ''}{' '.join(dict.fromkeys(shown))} "
            f"WHERE {{ GRAPH {self._graph.n3()} {{ {rows} }} }}{group}{sorting} "
            f"{f'LIMIT {query.limit}' if streams else page}"
        )
        return Compiled(sparql=sparql, columns=columns)

    def _with_properties(self, branches: Sequence[str], ends: str, sorts: Sequence[tuple[Item, str]]) -> str:
        """The inner SELECT of the matches, joined with every property that is returned or sorted by."""
        semantics = self._semantics
        matched = " ".join(
            self._context.variable(name)
            for name in semantics.kinds
            if name not in semantics.multi_hop and name not in semantics.memory_edge_variables
        )
        matches = f"{{ SELECT DISTINCT {matched} WHERE {{ {' UNION '.join(branches)} }} {ends} }}"
        sorted_by = (item for item, _ in sorts)
        wanted = list(dict.fromkeys((*self._properties(self._query.items), *self._properties(sorted_by))))
        if not wanted:
            return matches
        part = self._context.property_variable
        # A property with several values (an alias, a tag) would multiply rows: the least one stands for them.
        values = " ".join(f"(MIN({part(*one)}_) AS {part(*one)})" for one in wanted)
        joins = " ".join(self._join(*one) for one in wanted)
        return f"{{ SELECT {matched} {values} WHERE {{ {matches} {joins} }} GROUP BY {matched} }}"

    def _shown(self, columns: Sequence[Column]) -> tuple[list[str], list[str]]:
        """The expressions of the outer SELECT, and the variables to group by where something is counted."""
        shown: list[str] = []
        groups: list[str] = []
        for item, column in zip(self._query.items, columns, strict=True):
            for variable, _ in column.parts.values():
                if item.kind == "count":
                    distinct = "DISTINCT " if item.distinct else ""
                    counted = f"{distinct}{self._context.variable(item.variable)}" if item.variable else "*"
                    shown.append(f"(COUNT({counted}) AS ?{variable})")
                else:
                    shown.append(f"?{variable}")
                    groups.append(f"?{variable}")
        return shown, groups

    def _column(self, item: Item) -> Column:
        context, semantics = self._context, self._semantics
        if item.kind == "count":
            if item.variable:
                semantics.kind(item.variable, item.at)
            return Column(name=item.name, kind="count", parts={"": (context.fresh("c"), True)})
        kind = semantics.kind(item.variable, item.at)
        if item.kind == "property":
            _, _, is_number = semantics.property(item.variable, item.property, item.at)
            part = context.property_variable(item.variable, item.property)[1:]
            return Column(name=item.name, kind="property", parts={"": (part, is_number)})
        parts = {
            name: (context.property_variable(item.variable, name)[1:], PROPERTIES[kind][name][1])
            for name in SHOWN[kind]
        }
        iri = context.variable(item.variable)[1:]
        return Column(name=item.name, kind=kind, parts={"iri": (iri, False), **parts})

    def _properties(self, items: Iterable[Item]) -> list[tuple[str, str]]:
        """The (variable, property) pairs that the items read."""
        pairs: list[tuple[str, str]] = []
        for item in items:
            if item.kind == "property":
                pairs.append((item.variable, item.property))
            elif item.kind == "variable":
                pairs.extend((item.variable, name) for name in SHOWN[self._semantics.kinds[item.variable]])
        return pairs

    def _join(self, variable: str, name: str) -> str:
        kind = self._semantics.kinds[variable]
        value, subject = f"{self._context.property_variable(variable, name)}_", self._context.variable(variable)
        if kind == "relation" and name == "name":
            relation = self._context.fresh()
            return f"OPTIONAL {{ {subject} {RDF.predicate.n3()} {relation} . {relation} {LABEL} {value} }}"
        _, predicate, _ = self._semantics.property(variable, name, self._query.items[0].at)
        return f"OPTIONAL {{ {subject} {predicate} {value} }}"

    def _sort(self, item: Item, columns: Sequence[Column]) -> tuple[Item, str]:
        """What is sorted by, an item of RETURN by its name or a property of MATCH, and the expression for it."""
        by_name = {column.name: (one, column) for one, column in zip(self._query.items, columns, strict=True)}
        if item.name in by_name:
            returned, column = by_name[item.name]
            if returned.kind == "variable":
                returned = _property_of(returned, DEFAULT_SORT[self._semantics.kinds[returned.variable]])
                return returned, self._sort_expression(returned)
            variable, is_number = column.parts[""]
            return returned, f"?{variable}" if is_number else f"LCASE(STR(?{variable}))"
        if self._counts or self._query.distinct or item.kind == "count":
            raise self._semantics.error(f"sort by what is returned: {', '.join(by_name)}", item.at)
        if item.kind == "variable":
            item = _property_of(item, DEFAULT_SORT[self._semantics.kind(item.variable, item.at)])
        return item, self._sort_expression(item)

    def _sort_expression(self, item: Item) -> str:
        _, _, is_number = self._semantics.property(item.variable, item.property, item.at)
        part = self._context.property_variable(item.variable, item.property)
        return part if is_number else f"LCASE(STR({part}))"


def _property_of(item: Item, name: str) -> Item:
    return Item(kind="property", variable=item.variable, property=name, name=item.name, at=item.at)
