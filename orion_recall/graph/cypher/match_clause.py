"""Compiles the MATCH patterns of a Cypher query to SPARQL: one branch for every combination of hop counts.

A branch holds plain triple patterns and filters only, never a path of unbounded length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from difflib import get_close_matches

from rdflib import Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.graph.cypher.compile_context import CompileContext
from orion_recall.graph.cypher.semantics import LABEL, MEMORY_EDGES, is_own
from orion_recall.graph.cypher.tree import Chain, Comparison, Node, Relation, Word
from orion_recall.graph.cypher.where_clause import WhereClause
from orion_recall.graph.kinds import KINDS, relations_of_kind
from orion_recall.graph.relation_words import folded
from orion_recall.graph.terms import sparql_term
from orion_recall.graph.vocabulary import ORION

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
