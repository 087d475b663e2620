"""Cypher over the sample graph, from the text to the rows, and what is said of what is none."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.errors import GraphQueryError, TransientSourceError
from orion_recall.graph.cypher import QueryResult, parse, run_cypher, similar_in_graph
from tests.stand_ins.graph import PEOPLE, TENANT, Said, SampleGraph, sample_graph

GRAPH = sample_graph(PEOPLE)


async def result(query: str, graph: SampleGraph = GRAPH) -> QueryResult:
    return await run_cypher(query, graph, TENANT, partial(similar_in_graph, graph, tenant=TENANT))


async def names(query: str, graph: SampleGraph = GRAPH) -> list[str]:
    return sorted(str(row[0]) for row in (await result(query, graph)).rows)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("MATCH (a {name: 'IDA'})-[:WORKS_AT]->(b) RETURN b.name", ["Fjord Labs"]),
        ("match (b)<-[:works_at]-(a {name: 'Ida'}) return b.name // why", ["Fjord Labs"]),
        ("MATCH (b)-[:WORKS_AT]->({name: 'Ida'}) RETURN b.name;", []),
        ("MATCH (a {name: 'Ana'})-[:KNOWS|`sister of`]-(b) RETURN b.name", ["Bo", "Ida"]),
        ("MATCH (a {name: 'Carl'})-[:KNOWS*2]->(b) RETURN b.name", ["Ana"]),
        ("MATCH (a {name: 'Carl'})-[:KNOWS*1..2]->(b) RETURN b.name", ["Ana", "Bo"]),
        ("MATCH (a {name: 'Carl'})-[*3]-(b {name: 'Ida'}) RETURN b.name", ["Ida"]),
        ("MATCH (a:Person) RETURN a.name", ["Ada", "Ana", "Bo", "Carl", "Ida"]),
        ("MATCH (a:Speaker) RETURN a.name", ["Ana", "Bo"]),
        ("MATCH (a:Place) RETURN a.name", ["Bergen"]),
        ("MATCH (a:Organisation) RETURN a.name", ["Fjord Labs", "Harbour Engineers"]),
        ("MATCH (a:Entity) WHERE a.name SIMILAR 'fjord' RETURN a.name", ["Fjord Labs"]),
        ("MATCH (a)-[:KNOWS]->(b) WHERE a.name = 'Carl' AND b.name SIMILAR 'bo' RETURN b.name", ["Bo"]),
        ("MATCH (a {name: 'nobody'})-[]-(b) RETURN b.name", []),
        ("MATCH (a)-[r]->(b) WHERE r.weight = 2 RETURN r.text", ["Ida works at Fjord Labs"]),
        ("MATCH (a)-[r {name: 'lives in'}]->(b) RETURN a.name", ["Carl"]),
    ],
)  # fmt: skip
async def test_questions_and_their_answers(query: str, found: list[str]):
    assert await names(query) == found


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "MATCH (m:Memory)--(a) RETURN a",
            "no label Memory: there are Entity, Speaker.* graph sparql` finds memories",
        ),
        ("MATCH (a)-[:KNOW]->(b) RETURN a", "there is no relation KNOW in this graph: there is KNOWS"),
        ("MATCH (a) RETURN b", "there is no b in MATCH: there are a"),
        ("MATCH (a) RETURN a.age", "an entity has no age: it has name"),
        ("MATCH (a)-[r]-(b) RETURN r.age", "a relation has no age: it has name, text, weight"),
        ("MATCH (a)-[r*1..2]->(b) RETURN r", "several hops have no properties"),
        ("MATCH (a)-[a]->(b) RETURN a", "a stands for two things"),
        ("MATCH (a) WHERE a.name = 5 RETURN a", "name is a text"),
        ("MATCH (a)-[r]-(b) WHERE r.weight = 'much' RETURN a", "weight is a number"),
        ("MATCH (a)-[r]-(b) WHERE r.text SIMILAR 'x' RETURN a", "SIMILAR compares the name of an entity"),
        ("MATCH (a)-[*1..3]-(b)-[*1..3]-(c)-[*1..3]-(d) RETURN a", "more than 12 ways"),
    ],
)
async def test_a_query_without_a_meaning_is_an_error_with_its_place(query: str, message: str):
    graph = sample_graph(PEOPLE)
    with pytest.raises(GraphQueryError, match=message) as caught:
        await result(query, graph)
    assert caught.value.line == 1 and caught.value.column is not None
    assert len(graph.queries) <= 1  # the relations' names alone


@pytest.mark.parametrize(
    ("query", "message", "line", "column"),
    [
        ("", "the query ends where MATCH was expected; for more .*: `orion-recall graph sparql`", 1, 1),
        ("DELETE (a)", "'DELETE' where MATCH was expected", 1, 1),
        ("MATCH (a RETURN a", r"'RETURN' where '\)' was expected", 1, 10),
        ("MATCH (a), (b) RETURN a", "',' where RETURN was expected", 1, 10),
        ("MATCH (a)\nWHERE a.name ~ 'x'", "'~' where .*SIMILAR.* was expected", 2, 14),
        ("MATCH (a)\nRETURN", "the query ends where a name was expected", 2, 7),
        ("MATCH (a) WHERE a.name = 'x RETURN a", "where a text in quotes or a number was expected", 1, 26),
        ("MATCH (a) WHERE a.name = RETURN a", "where a text in quotes or a number was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT -1", "'-1' where a whole number was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT 999999", "LIMIT 999999: 10000 is the most", 1, 20),
        ("MATCH (a)-[*]->(b) RETURN a", r"up to 5: \*1..5", 1, 10),
        ("MATCH (a)-[*1..]->(b) RETURN a", r"up to 5: \*1..5", 1, 10),
        ("MATCH (a)-[*1..6]->(b) RETURN a", "1..6 hops: from 1 to 5", 1, 10),
        ("MATCH (a)-[*0..1]->(b) RETURN a", "0..1 hops: from 1 to 5", 1, 10),
        (r"MATCH (a {name: 'x\q'}) RETURN a", "there is no such escape", 1, 17),
        (r"MATCH (a {name: '\ud800'}) RETURN a", "there is no such escape", 1, 17),
        ("MATCH (a) RETURN a, a", "a is returned twice", 1, 21),
        ("MATCH (a) RETURN a ORDER BY a.name", "'ORDER' where end of text was expected", 1, 20),
        ("MATCH (a) WHERE a.name = 'x' OR a.name = 'y' RETURN a", "'OR' where RETURN was expected", 1, 30),
    ],
)
def test_a_mistake_is_named_with_its_place(query: str, message: str, line: int, column: int):
    with pytest.raises(GraphQueryError, match=message) as caught:
        parse(query)
    assert (caught.value.line, caught.value.column) == (line, column)
    *_, caret = str(caught.value).splitlines()
    assert caret == f"  {' ' * (column - 1)}^"


@pytest.mark.parametrize(
    "query", ["MATCH (a) RETURN a" + " " * 8000, "MATCH (a) RETURN a\x00", "MATCH (a) RETURN \ud800"]
)
def test_a_query_that_is_too_long_or_no_text_is_refused(query: str):
    with pytest.raises(GraphQueryError, match=r"the query (has|holds)"):
        parse(query)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str):
    for query in (text, f"MATCH {text} RETURN a", f"MATCH (a) WHERE {text} RETURN a"):
        try:
            parse(query)
        except GraphQueryError as error:
            assert str(error)


HOSTILE = st.text(st.sampled_from("\"'\\\n\r\t{}<>?$#;.:`ab \u2028|&()"), max_size=12) | st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12
)


def quoted(text: str) -> str:
    escapes = {"'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    return "'" + "".join(escapes.get(character, character) for character in text) + "'"


SECRET = Said(id="secret", text="secret", speaker="Eve", statements=(("Eve", "knows", "Secret"),))
SHARED = sample_graph(PEOPLE)
sample_graph([SECRET], tenant="other", into=SHARED.store)


@given(HOSTILE)
@example("'} }} UNION { GRAPH ?g { ?s ?p ?o } } #")
@example('")) } } DROP ALL #')
@example('\\"\\u0022 > <urn:x>')
async def test_no_text_leaves_its_place_in_the_query(text: str):
    (condition,) = parse(f"MATCH (a) WHERE a.name = {quoted(text)} RETURN a").comparisons
    assert condition.value == text
    store = set(SHARED.store)
    assert await names(f"MATCH (a)-[r {{text: {quoted(text)}}}]-(b) RETURN a.name", SHARED) == []
    for operator in ("=", "SIMILAR"):
        found = await names(f"MATCH (a) WHERE a.name {operator} {quoted(text)} RETURN a.name", SHARED)
        assert not {"Eve", "Secret"}.intersection(found)
    assert set(SHARED.store) == store


@pytest.mark.parametrize(
    "name", ['"quoted"', "back\\slash\\", "{brace}", "two\nlines", "<urn:x>", "a'b", "x } UNION {"]
)
async def test_entities_of_hostile_names_are_found_by_them(name: str):
    graph = sample_graph([Said(id="h", text="x", statements=((name, "knows", "Ana"),))])
    assert await names(f"MATCH (a {{name: {quoted(name)}}})-[:KNOWS]->(b) RETURN a.name", graph) == [name]


async def test_every_query_is_bounded():
    query = "MATCH (a)-[*1..3]-(b) RETURN a.name"
    sparql = (await result(query)).sparql
    assert max(int(limit) for limit in re.findall(r"LIMIT (\d+)", sparql)) <= 10_000
    assert re.search(r"LIMIT \d+$", sparql.strip())
    assert not re.search(r"[>)]\s*[+*](?!\))", sparql)  # no path of any length
    assert re.findall(r"GRAPH <([^>]+)>", sparql) == [f"urn:orion:tenant:{TENANT}"]


async def test_a_query_that_takes_too_long_says_so():
    class Slow(SampleGraph):
        async def select(self, query: str) -> list[Mapping[str, str]]:
            await asyncio.sleep(30)
            return []

    with pytest.raises(TransientSourceError, match=r"took longer than 0.05 s"):
        await run_cypher(
            "MATCH (a) RETURN a", Slow(), TENANT, partial(similar_in_graph, GRAPH, tenant=TENANT), timeout_s=0.05
        )


async def test_five_hops_are_followed_and_six_are_not():
    chain = sample_graph(
        [Said(id=f"h{n}", text="", statements=((f"N{n}", "knows", f"N{n + 1}"),)) for n in range(6)]
    )
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*5]->(b) RETURN b.name", chain) == ["N5"]
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*1..5]->(b {name: 'N5'}) RETURN b.name", chain) == ["N5"]
