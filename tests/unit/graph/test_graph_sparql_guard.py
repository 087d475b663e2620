from __future__ import annotations

import pytest

from orion_recall.errors import GraphQueryError
from orion_recall.graph.stores.reader import check_select


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?s ?p ?o }",
        "PREFIX x: <urn:x:> SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s x:p+ ?o } }",
        'SELECT * { ?s ?p "service at 5; insert data" }',
        "SELECT ?service { ?service ?p ?o }",
    ],
)
def test_what_reads_is_let_through(query: str):
    check_select(query)


@pytest.mark.parametrize(
    "query", ["ask { ?s ?p ?o }", "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "DESCRIBE <urn:x>"]
)
def test_other_forms_are_refused(query: str):
    with pytest.raises(GraphQueryError, match="only SELECT is allowed"):
        check_select(query)


@pytest.mark.parametrize(
    "query",
    ["INSERT DATA { <urn:a> <urn:b> 1 }", "DELETE WHERE { ?s ?p ?o }", "LOAD <http://127.0.0.1/x>", "DROP ALL",
     "CLEAR ALL", "PREFIX x: <urn:x>\n# why\nINSERT { ?s x:p 1 } WHERE { ?s ?p ?o }",
     "WITH <urn:g> DELETE { ?s ?p ?o } WHERE {}"],
)  # fmt: skip
def test_updates_are_refused_by_name(query: str):
    with pytest.raises(GraphQueryError, match="an update"):
        check_select(query)


@pytest.mark.parametrize(
    "query",
    ["SELECT * { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }",
     "SELECT * { { SELECT * { FILTER EXISTS { service silent ?x { ?a ?b ?c } } } } }",
     "SELECT * { S\\u0045RVICE <http://127.0.0.1/> { ?s ?p ?o } }", "SELECT * { ?a ?b ?c } # service # x\n<urn:y>"],
)  # fmt: skip
def test_no_other_server_is_asked(query: str):
    with pytest.raises(GraphQueryError, match=r"SERVICE is not allowed|no SPARQL query"):
        check_select(query)


@pytest.mark.parametrize("clause", ["FROM <urn:other>", "FROM NAMED <urn:other>"])
def test_a_query_may_not_choose_its_graphs(clause: str):
    with pytest.raises(GraphQueryError, match=r"FROM is not allowed.*--tenant"):
        check_select(f"SELECT * {clause} {{ ?s ?p ?o }}")
