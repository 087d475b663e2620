"""The semantics of a query: what each variable is (entity, memory, relation), and which properties it has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from rdflib.namespace import PROV, SKOS

from orion_recall.errors import GraphQueryError
from orion_recall.graph.cypher.syntax import At, Node, Query, Relation, Word
from orion_recall.graph.relation_words import KINDS
from orion_recall.graph.vocabulary import ORION, TELLS, property_iri

Kind = Literal["entity", "memory", "relation"]

METADATA = "meta_"
"""What the name of a property begins with that is a field of a memory's metadata."""
LABELS = ("Memory", "Entity", "Speaker", *KINDS)
# The edges that lead from a memory: type in Cypher -> (predicate, kind of the other end).
MEMORY_EDGES = {
    "MENTIONS": ("mentions", "entity"),
    "SPOKEN_BY": ("spokenBy", "entity"),
    "NEXT": ("next", "memory"),
    "REFERS_TO": ("refersTo", "memory"),
}
# The time windows that texts tell (`graph.told_windows`), compared by DURING.
TOLD = "told"
LABEL, ALT_LABEL = SKOS.prefLabel.n3(), SKOS.altLabel.n3()
# Property: (its predicate, whether it is a number).
PROPERTIES: Mapping[Kind, Mapping[str, tuple[str, bool]]] = {
    "entity": {"name": (LABEL, False)},
    "memory": {
        "id": (ORION.id.n3(), False), "kind": (ORION.kind.n3(), False), "text": (ORION.content.n3(), False),
        "speaker": (ORION.speaker.n3(), False), "ts": (ORION.occurred.n3(), True),
        "title": (ORION.title.n3(), False),
        "session": (ORION.session.n3(), False), "user": (ORION.user.n3(), False), "uri": (ORION.uri.n3(), False),
        "agent": (ORION.agent.n3(), False), "run": (ORION.run.n3(), False),
        "tag": (ORION.tag.n3(), False), TOLD: (TELLS, False),
    },
    "relation": {
        "name": (LABEL, False), "text": (ORION.text.n3(), False), "weight": (ORION.weight.n3(), True),
        "firstSeen": (ORION.firstSeen.n3(), True), "lastSeen": (ORION.lastSeen.n3(), True),
        # A statement tells what the memories tell that it rests on.
        TOLD: (f"{PROV.wasDerivedFrom.n3()}/{TELLS}", False),
    },
}  # fmt: skip
# The properties shown when a whole variable is returned, and the one that it is sorted by.
SHOWN: Mapping[Kind, tuple[str, ...]] = {
    "entity": ("name",), "memory": ("id", "kind", "text", "speaker", "ts"), "relation": ("name", "text", "weight"),
}  # fmt: skip
DEFAULT_SORT: Mapping[Kind, str] = {"entity": "name", "memory": "ts", "relation": "weight"}


class Semantics:
    """The kind of every variable. GraphQueryError for a query that has no meaning.

    `multi_hop` are variables of relations with more than one hop, `memory_edge_variables` those of edges that lead
    from memories. A variable that the query leaves unnamed begins with #.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self.kinds: dict[str, Kind] = {}
        self.multi_hop: set[str] = set()
        self.memory_edge_variables: set[str] = set()
        relations = [
            (left, relation, right)
            for chain in query.chains
            for left, relation, right in zip(chain.nodes, chain.relations, chain.nodes[1:], strict=False)
        ]
        self._infer_nodes(relations)
        self._infer_relations(relations)

    def error(self, message: str, at: At) -> GraphQueryError:
        """The error with its place in the query."""
        return GraphQueryError(message, text=self._query.text, line=at.line, column=at.column)

    def kind(self, variable: str, at: At) -> Kind:
        """The kind of a variable that the query names outside of MATCH."""
        if variable not in self.kinds or variable.startswith("#"):
            names = sorted(name for name in self.kinds if not name.startswith("#"))
            raise self.error(f"there is no {variable} in MATCH: there are {', '.join(names) or 'none'}", at)
        if variable in self.multi_hop:
            raise self.error(f"{variable} is several relations: only one of one hop can be asked for", at)
        return self.kinds[variable]

    def property(self, variable: str, name: str, at: At) -> tuple[Kind, str, bool]:
        """A property: the kind of thing that has it, its predicate, and whether it is a number."""
        kind = self.kind(variable, at) if not variable.startswith("#") else self.kinds[variable]
        if variable.startswith("#") and variable in self.multi_hop:
            raise self.error("relations of several hops have no properties to compare", at)
        if kind == "memory" and name.startswith(METADATA) and name != METADATA:
            return kind, property_iri(name.removeprefix(METADATA)).n3(), False
        if name not in PROPERTIES[kind]:
            further = f", and {METADATA}NAME for a field of its metadata" if kind == "memory" else ""
            raise self.error(f"{article(kind)} has no {name}: it has {', '.join(PROPERTIES[kind])}{further}", at)
        predicate, is_number = PROPERTIES[kind][name]
        return kind, predicate, is_number

    def memory_edges(self, left: Node, relation: Relation, right: Node) -> tuple[str, ...]:
        """The memory edges that the relation may be; none when it is a relation between entities."""
        ends = (self.kinds[left.variable], self.kinds[right.variable])
        if "memory" not in ends:
            return ()
        other = "memory" if ends == ("memory", "memory") else "entity"
        if other == "entity" and relation.direction != "either":
            begins = ends[0] if relation.direction == "right" else ends[1]
            if begins != "memory":
                raise self.error("such an edge leads from the memory to the entity: turn the arrow", relation.at)
        possible = tuple(name for name, (_, end) in MEMORY_EDGES.items() if end == other)
        wanted = {word.text.upper() for word in relation.types}
        return tuple(name for name in possible if not wanted or name in wanted)

    def _infer_nodes(self, relations: list[tuple[Node, Relation, Node]]) -> None:
        """From labels, then from edge types, then from neighbours that are memories; else a node is an entity."""
        nodes = [node for chain in self._query.chains for node in chain.nodes]
        for node in nodes:
            if node.label is not None:
                self._check_label(node.label)
                is_memory = node.label.text == "Memory" or is_own(node.label)
                self._set_kind(node.variable, "memory" if is_memory else "entity", node.at)
        for left, relation, right in relations:
            self._infer_from_types(left, relation, right)
        changed = True
        while changed:
            before = len(self.kinds)
            for left, _, right in relations:
                self._infer_from_memories(left, right)
            changed = len(self.kinds) > before
        for node in nodes:
            self.kinds.setdefault(node.variable, "entity")

    def _infer_relations(self, relations: list[tuple[Node, Relation, Node]]) -> None:
        used = {node.variable for chain in self._query.chains for node in chain.nodes}
        for left, relation, right in relations:
            self._check_relation(left, relation, right)
            if relation.variable in used:
                raise self.error(f"{relation.variable} stands for two things", relation.at)
            used.add(relation.variable)
            self.kinds[relation.variable] = "relation"
            if relation.high > 1:
                self.multi_hop.add(relation.variable)
            if self.memory_edges(left, relation, right):
                self.memory_edge_variables.add(relation.variable)

    def _set_kind(self, variable: str, kind: Kind, at: At) -> None:
        before = self.kinds.setdefault(variable, kind)
        if before != kind:
            shown = "this" if variable.startswith("#") else variable
            raise self.error(f"{shown} would be both {article(before)} and {article(kind)}", at)

    def _check_label(self, label: Word) -> None:
        if label.text not in LABELS and not is_own(label):
            close = get_close_matches(label.text.capitalize(), LABELS, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            own = "; a kind or tag of memories is a label in backquotes"
            raise self.error(f"there is no label {label.text}{hint}: there are {', '.join(LABELS)}{own}", label.at)

    def _infer_from_types(self, left: Node, relation: Relation, right: Node) -> None:
        typed = [word for word in relation.types if word.text.upper() in MEMORY_EDGES]
        if not typed:
            return
        if len(typed) < len(relation.types):
            raise self.error("edges of memories and relations between entities do not mix", relation.types[0].at)
        ends = {MEMORY_EDGES[word.text.upper()][1] for word in typed}
        if ends == {"memory"}:
            self._set_kind(left.variable, "memory", relation.at)
            self._set_kind(right.variable, "memory", relation.at)
        elif len(ends) == 1 and relation.direction != "either":
            memory, entity = (left, right) if relation.direction == "right" else (right, left)
            self._set_kind(memory.variable, "memory", relation.at)
            self._set_kind(entity.variable, "entity", relation.at)

    def _infer_from_memories(self, left: Node, right: Node) -> None:
        """The other end of a memory's edge is an entity unless something else makes it a memory."""
        for one, other in ((left, right), (right, left)):
            if self.kinds.get(one.variable) == "memory" and other.variable not in self.kinds:
                self.kinds[other.variable] = "entity"

    def _check_relation(self, left: Node, relation: Relation, right: Node) -> None:
        kinds = {self.kinds[left.variable], self.kinds[right.variable]}
        typed = [word for word in relation.types if word.text.upper() in MEMORY_EDGES]
        if not typed and relation.types and "memory" in kinds:
            word = relation.types[0]
            raise self.error(f"a memory's edges are {', '.join(MEMORY_EDGES)}, not {word.text}", word.at)
        if typed and "memory" not in kinds:
            raise self.error(
                "give the arrow, or an end the label Memory: such edges begin at memories", relation.at
            )
        possible = self.memory_edges(left, relation, right)
        for word in typed:
            if word.text.upper() not in possible:
                raise self.error(f"{word.text} does not lead from a memory to that end", word.at)
        if relation.high > 1 and kinds == {"memory", "entity"}:
            raise self.error("between a memory and an entity there is one hop", relation.at)
        if possible and relation.named:
            raise self.error("edges of memories have no properties: leave out the variable", relation.at)


def is_own(label: Word) -> bool:
    """Whether it is a label of one's own, in backquotes: a kind or a tag of memories."""
    return label.quoted and label.text not in LABELS


def article(kind: Kind) -> str:
    """The kind with its article."""
    return "an entity" if kind == "entity" else f"a {kind}"


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
