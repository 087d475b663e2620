"""Compiles the conditions of a Cypher query to SPARQL FILTER expressions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rdflib import Literal, URIRef
from rdflib.namespace import RDF

from orion_recall.graph.cypher.compile_context import CompileContext
from orion_recall.graph.cypher.semantics import ALT_LABEL, LABEL, TOLD
from orion_recall.graph.cypher.tree import AllOf, AnyOf, Comparison, Condition
from orion_recall.graph.terms import sparql_term
from orion_recall.graph.told_windows import overlap_filter, range_of

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
