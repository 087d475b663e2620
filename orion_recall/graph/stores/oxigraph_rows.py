"""The rows of a SELECT on an Oxigraph store in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pyoxigraph

from orion_recall.graph.terms import Row


def rows_of(store: pyoxigraph.Store, query: str) -> list[Row]:
    """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
    return list(each_row(store, query))


def each_row(store: pyoxigraph.Store, query: str) -> Iterator[Row]:
    """As `rows_of`, one by one."""
    # Not through rdflib: making its terms only to take their text costs more than the query does.
    solutions = store.query(query)
    assert isinstance(solutions, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    for row in solutions:
        yield {name: value.value for name, value in zip(names, row, strict=True) if value is not None}
