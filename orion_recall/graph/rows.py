"""The rows of a query to an Oxigraph in this process."""

from __future__ import annotations

import pyoxigraph

from orion_recall.graph.questions import Row


def rows_of(store: pyoxigraph.Store, query: str) -> list[Row]:
    """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
    # Asked of the store itself, not through rdflib: making rdflib terms only to take their text costs more than
    # the query does.
    solutions = store.query(query)
    assert isinstance(solutions, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    return [
        {name: value.value for name, value in zip(names, row, strict=True) if value is not None}
        for row in solutions
    ]
