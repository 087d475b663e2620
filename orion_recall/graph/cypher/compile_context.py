"""Compile context: the query, its semantics, the graph's names and SPARQL variables, for all compile steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.graph.cypher.semantics import Semantics
from orion_recall.graph.cypher.tree import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """What is looked up before compiling: relation names by IRI; IRIs of entities by a name, and of entities and
    memories by a text for SIMILAR."""

    relations: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    similar: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    similar_memories: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


class CompileContext:
    """The query, its semantics and the graph's names; hands out SPARQL variables, none of them from user text."""

    def __init__(self, query: Query, names: KnownNames) -> None:
        self.query, self.names = query, names
        self.semantics = Semantics(query)
        self._numbers: dict[str, int] = {}
        self._fresh = itertools.count()

    def variable(self, name: str) -> str:
        """The SPARQL variable of a Cypher variable, always the same."""
        return f"?v{self._numbers.setdefault(name, len(self._numbers))}"

    def property_variable(self, name: str, property_name: str) -> str:
        """The SPARQL variable of a property of a Cypher variable."""
        return f"{self.variable(name)}_{property_name}"

    def fresh(self, prefix: str = "?x") -> str:
        """A variable that is used nowhere else."""
        return f"{prefix}{next(self._fresh)}"
