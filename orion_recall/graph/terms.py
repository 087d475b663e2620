"""RDF terms as SPARQL text, the only form in which values enter a query; and the type of result rows."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping

from rdflib import Literal, URIRef

from orion_recall.errors import SourceError

Row = Mapping[str, str]
"""One row of a SELECT: values as text by variable name; unbound variables are absent."""
UNEXPECTED_ROWS = "the graph's answer does not fit the query: a column is missing, or its value has the wrong type"


def sparql_term(term: URIRef | Literal) -> str:
    """The term through rdflib's own n3(), on one line.

    rdflib writes a literal with a line break in triple quotes, and leaves a quotation mark after a backslash
    unescaped: it ends the literal, and what follows would be read as SPARQL. So each line is written on its own.
    """
    if isinstance(term, Literal) and term.datatype is None and "\n" in term:
        return '"' + "\\n".join(Literal(line).n3()[1:-1] for line in term.split("\n")) + '"'
    return term.n3()


@contextlib.contextmanager
def reading_rows() -> Generator[None]:
    """A LookupError or ValueError in the block, which reads rows of an answer, becomes a SourceError."""
    try:
        yield
    except (LookupError, ValueError) as error:
        raise SourceError(UNEXPECTED_ROWS) from error
