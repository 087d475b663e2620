"""Cypher over the sample graph, from the text to the rows, and what is said of what is none."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from orion_recall.errors import GraphQueryError, SourceError, TransientSourceError
from orion_recall.graph.cypher.execution import (
    FirstAvailable,
    GraphEntities,
    GraphMemories,
    QueryResult,
    run_cypher,
)
from orion_recall.graph.cypher.syntax import parse
from tests.samples.source_samples import HashingEmbedder
from tests.stand_ins.graph import NOW, PEOPLE, TENANT, Said, SampleGraph, sample_graph

GRAPH = sample_graph(PEOPLE)


async def result(query: str, graph: SampleGraph = GRAPH) -> QueryResult:
    memories = GraphMemories(graph, HashingEmbedder())
    return await run_cypher(query, graph, TENANT, GraphEntities(graph), memories)


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
        ("MATCH (m:Memory {kind: 'plan'}) RETURN m.id", ["m6"]),
        ("MATCH (m:Memory)-[:MENTIONS]->(e {name: 'Bergen'}) RETURN m.id", ["m2", "m4"]),
        ("MATCH (m:Memory)-[:SPOKEN_BY]->(e {name: 'Bo'}) RETURN m.id", ["m2", "m3"]),
        ("MATCH (e {name: 'Bo'})--(m:Memory) RETURN m.id", ["m2", "m3", "m4"]),
        ("MATCH (m:Memory {id: 'm1'})-[:NEXT]->(n:Memory) RETURN n.id", ["m2"]),
        ("MATCH (m:Memory)-[:NEXT]-(n:Memory) RETURN n.id", ["m1", "m2"]),
        (f"MATCH (m:Memory) WHERE m.ts = {NOW} RETURN m.id", ["m5"]),
        ("MATCH (a)-[:KNOWS]->(b), (b)-[:KNOWS]->(c) RETURN c.name", ["Ana"]),
    ],
)  # fmt: skip
async def test_questions_and_their_answers(query: str, found: list[str]):
    assert await names(query) == found


async def test_a_whole_thing_is_shown_with_its_properties():
    answer = await result(
        "MATCH (m:Memory {id: 'm5'})-[:MENTIONS]->(e {name: 'Ida'})-[r:WORKS_AT]->(b) RETURN m, e, r, b.name"
    )
    assert answer.columns == ("m", "e", "r", "b.name")
    ((memory, entity, relation, at),) = answer.rows
    assert isinstance(memory, Mapping) and isinstance(entity, Mapping) and isinstance(relation, Mapping)
    assert {name: memory[name] for name in ("is", "id", "kind", "text", "speaker", "ts")} == {
        "is": "memory", "id": "m5", "kind": "world", "text": "Ida still works at Fjord Labs.", "speaker": "Ana",
        "ts": NOW,
    }  # fmt: skip
    assert dict(entity) == {"is": "entity", "iri": "urn:orion:entity:ida", "name": "Ida"}
    assert (relation["name"], relation["text"], relation["weight"]) == ("works at", "Ida works at Fjord Labs", 2)
    assert at == "Fjord Labs"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("MATCH (a:Persn) RETURN a", r"no label Persn \(did you mean Person\?\): there are Memory, Entity"),
        ("MATCH (a)-[:KNOW]->(b) RETURN a", "there is no relation KNOW in this graph: there is KNOWS"),
        ("MATCH (a) RETURN b", "there is no b in MATCH: there are a"),
        ("MATCH (a) RETURN a.age", "an entity has no age: it has name"),
        ("MATCH (m:Memory) RETURN m.name", "a memory has no name: it has id, kind, text"),
        ("MATCH (m:Memory) WHERE m.topic = 'x' RETURN m", "meta_NAME for a field of its metadata"),
        ("MATCH (a)-[r*1..2]->(b) RETURN r", "several hops, and edges of memories, have no properties"),
        ("MATCH (m:Memory)-[r:NEXT]->(n:Memory) RETURN r", "edges of memories, have no properties"),
        ("MATCH (a)-[a]->(b) RETURN a", "a stands for two things"),
        ("MATCH (a:Memory)--(b), (a:Person)--(c) RETURN a", "a would be both a memory and an entity"),
        ("MATCH (a)-[:NEXT]->(b) RETURN a", "NEXT: such edges begin at memories, give one end the label Memory"),
        (
            "MATCH (m:Memory)-[:KNOWS]->(b) RETURN b",
            "KNOWS leads from no memory to that end: .* SPOKEN_BY",
        ),
        ("MATCH (m:Memory)<--(b) RETURN b", "turn the arrow"),
        ("MATCH (m:Memory)-[*1..2]->(b) RETURN b", "there is one hop"),
        ("MATCH (a) WHERE a.name = 5 RETURN a", "name is a text"),
        ("MATCH (m:Memory) WHERE m.ts = 'yesterday' RETURN m", "ts is a number"),
        ("MATCH (m:Memory) WHERE m.title SIMILAR 'x' RETURN m", "the text of a memory"),
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
        ("", "the query ends where MATCH was expected", 1, 1),
        ("DELETE (a)", "'DELETE' where MATCH was expected; DELETE is no part", 1, 1),
        ("MATCH (a RETURN a", r"'RETURN' where \), : or \{ was expected", 1, 10),
        ("MATCH (a)\nWHERE a.name ~ 'x'", "'~' where = or SIMILAR was expected", 2, 14),
        ("MATCH (a)\nRETURN", "the query ends where a name was expected", 2, 7),
        ("MATCH (a) WHERE a.name = 'x RETURN a", "this text has no end", 1, 26),
        ("MATCH (a) WHERE a.name = RETURN a", "where a number or a text in quotes was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT -1", "'-1' where a whole number was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT 999999", "LIMIT 999999: 10000 is the most", 1, 26),
        ("MATCH (a)-[*]->(b) RETURN a", r"up to 5: \*1..5", 1, 10),
        ("MATCH (a)-[*1..]->(b) RETURN a", r"up to 5: \*1..5", 1, 13),
        ("MATCH (a)-[*1..6]->(b) RETURN a", "1..6 hops: from 1 to 5", 1, 13),
        ("MATCH (a)-[*0..1]->(b) RETURN a", "0..1 hops: from 1 to 5", 1, 13),
        (r"MATCH (a {name: 'x\q'}) RETURN a", r"there is no escape \\q", 1, 17),
        (r"MATCH (a {name: '\ud800'}) RETURN a", r"there is no escape \\ud800", 1, 17),
        ("MATCH (a) RETURN a, a", "a is returned twice", 1, 21),
    ],
)
def test_a_mistake_is_named_with_its_place(query: str, message: str, line: int, column: int):
    with pytest.raises(GraphQueryError, match=message) as caught:
        parse(query)
    assert (caught.value.line, caught.value.column) == (line, column)
    *_, caret = str(caught.value).splitlines()
    assert caret == f"  {' ' * (column - 1)}^"


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("MATCH (a) RETURN a ORDER BY a.name", "ORDER BY"),
        ("MATCH (a) RETURN count(*)", "COUNT"),
        ("MATCH (a) RETURN DISTINCT a", "DISTINCT"),
        ("MATCH (a) WHERE a.name CONTAINS 'x' RETURN a", "CONTAINS"),
        ("MATCH (a) WHERE a.name = 'x' OR a.name = 'y' RETURN a", "OR"),
        ("MATCH (a) WHERE NOT a.name = 'x' RETURN a", "NOT"),
        ("MATCH (m:Memory) WHERE m.ts >= 5 RETURN m", ">="),
        ("MATCH (m:Memory) WHERE m.told DURING '2026' RETURN m", "DURING"),
    ],
)
def test_what_this_cypher_leaves_out_is_asked_in_sparql(query: str, word: str):
    with pytest.raises(GraphQueryError, match=f"{word} is no part of this Cypher: ask in SPARQL"):
        parse(query)


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
    assert await names(f"MATCH (m:Memory {{title: {quoted(text)}}}) RETURN m.id", SHARED) == []
    for operator in ("=", "SIMILAR"):
        found = await names(f"MATCH (a) WHERE a.name {operator} {quoted(text)} RETURN a.name", SHARED)
        assert not {"Eve", "Secret"}.intersection(found)
    assert set(SHARED.store) == store


@given(HOSTILE)
async def test_no_name_of_a_relation_gets_into_the_query(name: str):
    assume(not name.replace("_", "").isalpha())  # a plain word may be one that there is: REFERS_TO
    graph = sample_graph(PEOPLE[:1])
    with pytest.raises(GraphQueryError):
        await result(f"MATCH (a)-[:`{name}`]->(b) RETURN a", graph)
    assert len(graph.queries) <= 1


@pytest.mark.parametrize(
    "name", ['"quoted"', "back\\slash\\", "{brace}", "two\nlines", "<urn:x>", "a'b", "x } UNION {"]
)
async def test_entities_of_hostile_names_are_found_by_them(name: str):
    graph = sample_graph([Said(id="h", text="x", statements=((name, "knows", "Ana"),))])
    assert await names(f"MATCH (a {{name: {quoted(name)}}})-[:KNOWS]->(b) RETURN a.name", graph) == [name]


@pytest.mark.parametrize(
    "query",
    ["MATCH (a)-[*1..3]-(b) RETURN a.name", "MATCH (m:Memory)-[:NEXT*1..3]-(n:Memory) RETURN m LIMIT 5"],
)
async def test_every_query_is_bounded(query: str):
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

    memories = GraphMemories(GRAPH, HashingEmbedder())
    with pytest.raises(TransientSourceError, match=r"took longer than 0.05 s"):
        await run_cypher("MATCH (a) RETURN a", Slow(), TENANT, GraphEntities(GRAPH), memories, timeout_s=0.05)


DATED = sample_graph(
    (
        Said(id="d1", text="Ida met Bo on 12 May 2026.", statements=(("Ida", "met", "Bo"),), tags=("harbour",),
             metadata={"project": "crane", "cost": 12, "open": True}),
        Said(id="d2", text="Ida knows Bo.", statements=(("Ida", "knows", "Bo"),), kind="plan",
             metadata={"project": "boat"}),
        Said(id="d3", text="Bo met Carl in June 2026.", statements=(("Bo", "met", "Carl"),)),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("MATCH (m:Memory {meta_project: 'crane'}) RETURN m.id", ["d1"]),
        ("MATCH (m:Memory {id: 'd2'}) RETURN m.meta_project", ["boat"]),
        ("MATCH (m:Memory {meta_cost: '12', meta_open: 'true'}) RETURN m.id", ["d1"]),
        ("MATCH (m:Memory {tag: 'harbour'}) RETURN m.id", ["d1"]),
        ("MATCH (m:Memory)-[:MENTIONS]->(e {name: 'Carl'}) WHERE m.text SIMILAR 'Bo met Carl in June' RETURN m.id",
         ["d3"]),
    ],
)  # fmt: skip
async def test_metadata_tags_and_memories_like_a_text(query: str, found: list[str]):
    assert await names(query, DATED) == found


async def test_five_hops_are_followed_and_six_are_not():
    chain = sample_graph(
        [Said(id=f"h{n}", text="", statements=((f"N{n}", "knows", f"N{n + 1}"),)) for n in range(6)]
    )
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*5]->(b) RETURN b.name", chain) == ["N5"]
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*1..5]->(b {name: 'N5'}) RETURN b.name", chain) == ["N5"]


async def test_where_the_index_is_away_the_names_in_the_graph_answer():
    class Away:
        async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
            raise TransientSourceError("the index is away")

    told: list[SourceError] = []
    finder = FirstAvailable([Away(), GraphEntities(sample_graph(PEOPLE))], told=told.append)
    assert await finder.similar_entities("fjord", TENANT, 5) == ["urn:orion:entity:fjord_labs"]
    assert [str(error) for error in told] == ["the index is away"]
    with pytest.raises(SourceError, match="is away"):
        await FirstAvailable([Away()], told=told.append).similar_entities("fjord", TENANT, 5)
