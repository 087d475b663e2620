"""The syntax tree of a Cypher query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MOST_CHARACTERS = 8_000
MOST_HOPS = 5
DEFAULT_LIMIT, MOST_LIMIT, MOST_SKIP = 100, 10_000, 100_000

Value = str | float | bool
Direction = Literal["right", "left", "either"]
Operator = Literal["=", "<>", "<", "<=", ">", ">=", "CONTAINS", "STARTS WITH", "ENDS WITH", "SIMILAR", "DURING"]


@dataclass(frozen=True, slots=True)
class At:
    """A position in the query's text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Word:
    """A name as it was written, with its position; `quoted`: in backquotes."""

    text: str
    at: At
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`variable.property operator value`."""

    variable: str
    property: str
    operator: Operator
    value: Value
    at: At


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One part must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """The part must not hold."""

    part: Condition


Condition = Comparison | AllOf | AnyOf | Negated


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`(variable:label)`; an unnamed node gets a variable that begins with #."""

    variable: str
    label: Word | None
    at: At


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`-[variable:types*low..high]->`. `named` when the variable was written."""

    variable: str
    named: bool
    types: tuple[Word, ...]
    low: int
    high: int
    direction: Direction
    at: At


@dataclass(frozen=True, slots=True)
class Chain:
    """Nodes with a relation between each two neighbours."""

    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of RETURN or ORDER BY: a variable, a property, or a count (of rows where `variable` is empty)."""

    kind: Literal["variable", "property", "count"]
    variable: str = ""
    property: str = ""
    distinct: bool = False
    name: str
    at: At


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A whole query. `conditions` must all hold; property maps of nodes and relations are among them."""

    chains: tuple[Chain, ...]
    conditions: tuple[Condition, ...]
    distinct: bool
    items: tuple[Item, ...]
    order: tuple[tuple[Item, bool], ...]
    skip: int
    limit: int
    text: str


def comparisons(condition: Condition) -> Iterator[Comparison]:
    """Every comparison in a condition."""
    if isinstance(condition, Comparison):
        yield condition
    elif isinstance(condition, Negated):
        yield from comparisons(condition.part)
    else:
        for part in condition.parts:
            yield from comparisons(part)
