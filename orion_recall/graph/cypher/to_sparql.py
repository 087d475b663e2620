"""Compiles a Cypher tree to one bounded SPARQL SELECT.

The matches are an inner SELECT with a limit: a UNION of branches (see `match_clause`). Around them stands what
RETURN asks for: properties, counts, order. Names and values enter as rdflib terms only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rdflib import URIRef
from rdflib.namespace import RDF

from orion_recall.graph.cypher.compile_context import CompileContext, KnownNames
from orion_recall.graph.cypher.match_clause import MatchClause
from orion_recall.graph.cypher.semantics import DEFAULT_SORT, LABEL, PROPERTIES, SHOWN
from orion_recall.graph.cypher.tree import Item, Query

MOST_MATCHES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One returned column. `parts` maps a property to its SPARQL variable and whether it is a number."""

    name: str
    kind: Literal["entity", "memory", "relation", "property", "count"]
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
