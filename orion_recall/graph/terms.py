"""RDF terms as SPARQL text: the one way by which a value enters a query or an update. And the rows of an answer."""

from __future__ import annotations

from collections.abc import Mapping

from rdflib import Literal, URIRef

Row = Mapping[str, str]
"""One row of a SELECT: values as text by variable name; unbound variables are absent."""


def sparql_term(term: URIRef | Literal) -> str:
    """The term through rdflib's own n3(), on one line.

    rdflib writes a literal with a line break in triple quotes, and leaves a quotation mark after a backslash
    unescaped: it ends the literal, and what follows would be read as SPARQL. So each line is written on its own.
    """
    if isinstance(term, Literal) and term.datatype is None and "\n" in term:
        return '"' + "\\n".join(Literal(line).n3()[1:-1] for line in term.split("\n")) + '"'
    return term.n3()
