"""RDF terms as they are written in SPARQL: the one way by which a value enters a query or an update."""

from __future__ import annotations

from rdflib import Literal, URIRef


def written(term: URIRef | Literal) -> str:
    """The term through rdflib's own n3(), on one line.

    rdflib writes a literal with a line break in triple quotes, and then leaves a quotation mark bare that ends the
    text behind a backslash: what follows would be read as SPARQL. So the lines are written one by one.
    """
    if isinstance(term, Literal) and term.datatype is None and "\n" in term:
        return '"' + "\\n".join(Literal(line).n3()[1:-1] for line in term.split("\n")) + '"'
    return term.n3()
