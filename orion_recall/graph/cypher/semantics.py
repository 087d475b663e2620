"""What the variables of a query stand for: entities, memories, relations; and what each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal

from rdflib.namespace import SKOS

from orion_recall.errors import GraphQueryError
from orion_recall.graph.cypher.tree import At, Node, Query, Relation, Word
from orion_recall.graph.kinds import KINDS
from orion_recall.graph.vocabulary import ORION

Kind = Literal["entity", "memory", "relation"]

LABELS = ("Memory", "Entity", "Speaker", *KINDS)
LINKS = {
    "MENTIONS": ("mentions", "entity"),
    "SPOKEN_BY": ("spokenBy", "entity"),
    "NEXT": ("next", "memory"),
    "REFERS_TO": ("refersTo", "memory"),
}
LABEL, ALSO = SKOS.prefLabel.n3(), SKOS.altLabel.n3()
# Property: (its predicate, whether it is a number).
PROPERTIES: Mapping[Kind, Mapping[str, tuple[str, bool]]] = {
    "entity": {"name": (LABEL, False)},
    "memory": {
        "id": (ORION.id.n3(), False), "kind": (ORION.kind.n3(), False), "text": (ORION.content.n3(), False),
        "speaker": (ORION.speaker.n3(), False), "ts": (ORION.occurred.n3(), True),
        "title": (ORION.title.n3(), False),
        "session": (ORION.session.n3(), False), "user": (ORION.user.n3(), False), "uri": (ORION.uri.n3(), False),
        "tag": (ORION.tag.n3(), False),
    },
    "relation": {
        "name": (LABEL, False), "text": (ORION.text.n3(), False), "weight": (ORION.weight.n3(), True),
        "firstSeen": (ORION.firstSeen.n3(), True), "lastSeen": (ORION.lastSeen.n3(), True),
    },
}  # fmt: skip
# What is shown of a whole thing, and what it is sorted by.
SHOWN: Mapping[Kind, tuple[str, ...]] = {
    "entity": ("name",), "memory": ("id", "kind", "text", "speaker", "ts"), "relation": ("name", "text", "weight"),
}  # fmt: skip
SORTED_BY: Mapping[Kind, str] = {"entity": "name", "memory": "ts", "relation": "weight"}


class Meaning:
    """The kind of every variable; GraphQueryError for a query that cannot mean anything.

    `several` are variables of relations with more than one hop, `links` those of memories' own edges.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self.kinds: dict[str, Kind] = {}
        self.several: set[str] = set()
        self.links: set[str] = set()
        self._find()

    def wrong(self, message: str, at: At) -> GraphQueryError:
        """The error with its place."""
        return GraphQueryError(message, text=self._query.text, line=at.line, column=at.column)

    def kind(self, variable: str, at: At) -> Kind:
        """The kind of a variable that the query names somewhere outside of MATCH."""
        if variable not in self.kinds or variable.startswith("#"):
            names = sorted(name for name in self.kinds if not name.startswith("#"))
            raise self.wrong(f"there is no {variable} in MATCH: there are {', '.join(names) or 'none'}", at)
        if variable in self.several:
            raise self.wrong(f"{variable} is several relations: only one of one hop can be asked for", at)
        return self.kinds[variable]

    def property(self, variable: str, name: str, at: At) -> tuple[Kind, str, bool]:
        """A property: of which kind of thing, its predicate, and whether it is a number."""
        kind = self.kind(variable, at) if not variable.startswith("#") else self.kinds[variable]
        if variable.startswith("#") and variable in self.several:
            raise self.wrong("relations of several hops have no properties to compare", at)
        if name not in PROPERTIES[kind]:
            raise self.wrong(f"{article(kind)} has no {name}: it has {', '.join(PROPERTIES[kind])}", at)
        predicate, is_number = PROPERTIES[kind][name]
        return kind, predicate, is_number

    def _find(self) -> None:
        relations = [
            (left, relation, right)
            for chain in self._query.chains
            for left, relation, right in zip(chain.nodes, chain.relations, chain.nodes[1:], strict=False)
        ]
        for chain in self._query.chains:
            for node in chain.nodes:
                if node.label is not None:
                    self._check_label(node.label)
                    self._is(node.variable, "memory" if node.label.text == "Memory" else "entity", node.at)
        for left, relation, right in relations:
            self._kind_by_types(left, relation, right)
        changed = True
        while changed:
            before = len(self.kinds)
            for left, relation, right in relations:
                self._kind_beside_memories(left, relation, right)
            changed = len(self.kinds) > before
        for chain in self._query.chains:
            for node in chain.nodes:
                self.kinds.setdefault(node.variable, "entity")
        seen: set[str] = set()
        for left, relation, right in relations:
            self._check_relation(left, relation, right)
            if relation.variable in seen or relation.variable in (
                node.variable for chain in self._query.chains for node in chain.nodes
            ):
                raise self.wrong(f"{relation.variable} stands for two things", relation.at)
            seen.add(relation.variable)
            self.kinds[relation.variable] = "relation"
            if relation.high > 1:
                self.several.add(relation.variable)
            if self.link_names(left, relation, right):
                self.links.add(relation.variable)

    def _is(self, variable: str, kind: Kind, at: At) -> None:
        before = self.kinds.setdefault(variable, kind)
        if before != kind:
            raise self.wrong(f"{_named(variable)} would be both {article(before)} and {article(kind)}", at)

    def _check_label(self, label: Word) -> None:
        if label.text not in LABELS:
            close = get_close_matches(label.text.capitalize(), LABELS, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise self.wrong(f"there is no label {label.text}{hint}: there are {', '.join(LABELS)}", label.at)

    def _kind_by_types(self, left: Node, relation: Relation, right: Node) -> None:
        links = [word for word in relation.types if word.text.upper() in LINKS]
        if not links:
            return
        if len(links) < len(relation.types):
            raise self.wrong("memories' own edges and relations between entities do not mix", relation.types[0].at)
        ends = {LINKS[word.text.upper()][1] for word in links}
        if ends == {"memory"}:
            self._is(left.variable, "memory", relation.at)
            self._is(right.variable, "memory", relation.at)
        elif len(ends) == 1 and relation.direction != "either":
            memory, entity = (left, right) if relation.direction == "right" else (right, left)
            self._is(memory.variable, "memory", relation.at)
            self._is(entity.variable, "entity", relation.at)

    def _kind_beside_memories(self, left: Node, relation: Relation, right: Node) -> None:
        """What is linked to a memory by anything is an entity, unless it is told to be a memory."""
        for one, other in ((left, right), (right, left)):
            if self.kinds.get(one.variable) == "memory" and other.variable not in self.kinds:
                self.kinds[other.variable] = "entity"

    def _check_relation(self, left: Node, relation: Relation, right: Node) -> None:
        kinds = {self.kinds[left.variable], self.kinds[right.variable]}
        links = [word for word in relation.types if word.text.upper() in LINKS]
        if not links and relation.types and "memory" in kinds:
            word = relation.types[0]
            raise self.wrong(f"a memory's edges are {', '.join(LINKS)}, not {word.text}", word.at)
        if links and "memory" not in kinds:
            raise self.wrong(
                "give the arrow, or an end the label Memory: such edges begin at memories", relation.at
            )
        wanted = self.link_names(left, relation, right)
        for word in links:
            if word.text.upper() not in wanted:
                raise self.wrong(f"{word.text} does not lead from {article('memory')} to that", word.at)
        if relation.high > 1 and kinds == {"memory", "entity"}:
            raise self.wrong("between a memory and an entity there is one hop", relation.at)
        if wanted and relation.named:
            raise self.wrong("a memory's own edges have nothing to tell: leave out the name", relation.at)

    def link_names(self, left: Node, relation: Relation, right: Node) -> tuple[str, ...]:
        """The memories' own edges that the relation may be; none when it is one between entities."""
        ends = (self.kinds[left.variable], self.kinds[right.variable])
        if "memory" not in ends:
            return ()
        other = "memory" if ends == ("memory", "memory") else "entity"
        if other == "entity" and relation.direction != "either":
            begins = ends[0] if relation.direction == "right" else ends[1]
            if begins != "memory":
                raise self.wrong("such an edge leads from the memory to the entity: turn the arrow", relation.at)
        possible = tuple(name for name, (_, end) in LINKS.items() if end == other)
        asked = {word.text.upper() for word in relation.types}
        return tuple(name for name in possible if not asked or name in asked)


def _named(variable: str) -> str:
    return "this" if variable.startswith("#") else variable


def article(kind: Kind) -> str:
    """The kind as one speaks of it."""
    return "an entity" if kind == "entity" else f"a {kind}"
