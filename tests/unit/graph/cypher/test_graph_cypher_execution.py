"""Questions in Cypher over the sample graph, from the text to the rows."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from orion_recall.errors import GraphQueryError, TransientSourceError
from orion_recall.graph.cypher.execution import Cell, GraphEntities, GraphMemories, run_cypher
from orion_recall.graph.vocabulary import memory_iri
from orion_recall.text.normal import memory_key
from tests.samples.source_samples import HashingEmbedder
from tests.stand_ins.graph import NOW, PEOPLE, TENANT, Said, SampleGraph, sample_graph

GRAPH = sample_graph(PEOPLE)


async def rows(query: str, graph: SampleGraph = GRAPH) -> list[tuple[Cell, ...]]:
    return list((await run_cypher(query, graph, TENANT, GraphEntities(graph))).rows)


async def names(query: str, graph: SampleGraph = GRAPH) -> list[Cell]:
    return [row[0] for row in await rows(query, graph)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("MATCH (a {name: 'IDA'})-[:WORKS_AT]->(b) RETURN b.name", ["Fjord Labs"]),
        ("MATCH (b)<-[:works_at]-(a {name: 'Ida'}) RETURN b.name", ["Fjord Labs"]),
        ("MATCH (b)-[:WORKS_AT]->({name: 'Ida'}) RETURN b.name", []),
        ("MATCH (a {name: 'Ana'})-[:KNOWS|`sister of`]-(b) RETURN b.name ORDER BY b.name", ["Bo", "Ida"]),
        ("MATCH (a {name: 'Carl'})-[:KNOWS*2]->(b) RETURN b.name", ["Ana"]),
        ("MATCH (a {name: 'Carl'})-[:KNOWS*1..2]->(b) RETURN b.name ORDER BY b.name", ["Ana", "Bo"]),
        ("MATCH (a {name: 'Carl'})-[*3]-(b {name: 'Ida'}) RETURN b.name", ["Ida"]),
        ("MATCH (a:Person) RETURN a.name ORDER BY a.name", ["Ada", "Ana", "Bo", "Carl", "Ida"]),
        ("MATCH (a:Speaker) RETURN a.name ORDER BY a.name DESC", ["Bo", "Ana"]),
        ("MATCH (a:Place) RETURN a.name", ["Bergen"]),
        ("MATCH (a:Organisation) RETURN a.name ORDER BY a.name", ["Fjord Labs", "Harbour Engineers"]),
        ("MATCH (a:Entity) WHERE a.name CONTAINS 'LAB' RETURN a.name", ["Fjord Labs"]),
        ("MATCH (a) WHERE a.name STARTS WITH 'ber' OR a.name ENDS WITH 'RL' RETURN a.name ORDER BY a.name",
         ["Bergen", "Carl"]),
        ("MATCH (a:Person) WHERE NOT (a.name = 'Ana' OR a.name = 'Bo') AND a.name <> 'Carl' "
         "RETURN a.name ORDER BY a.name", ["Ada", "Ida"]),
        ("MATCH (a:Person) RETURN a.name ORDER BY a.name SKIP 1 LIMIT 2", ["Ana", "Bo"]),
        ("MATCH (a {name: 'nobody'})-[]-(b) RETURN b.name", []),
        ("MATCH (a)-[r]->(b) WHERE r.weight >= 2 RETURN r.text", ["Ida works at Fjord Labs"]),
        ("MATCH (a)-[r {name: 'lives in'}]->(b) RETURN a.name", ["Carl"]),
        ("MATCH (a)-[r]->(b) WHERE r.lastSeen < '2025-06-01T00:00:00Z' RETURN r.text ORDER BY r.text",
         ["Carl knows Bo", "Carl lives in Bergen"]),
        ("MATCH (m:Memory {kind: 'plan'}) RETURN m.id", ["m6"]),
        ("MATCH (m:Memory)-[:MENTIONS]->(e {name: 'Bergen'}) RETURN m.id ORDER BY m.id", ["m2", "m4"]),
        ("MATCH (m:Memory)-[:SPOKEN_BY]->(e {name: 'Bo'}) RETURN m.id ORDER BY m.id", ["m2", "m3"]),
        ("MATCH (e {name: 'Bo'})--(m:Memory) RETURN m.id ORDER BY m.id", ["m2", "m3", "m4"]),
        ("MATCH (m {id: 'm1'})-[:NEXT]->(n) RETURN n.id", ["m2"]),
        ("MATCH (m)-[:NEXT]-(n) RETURN n.id ORDER BY n.id", ["m1", "m2"]),
        ("MATCH (m:Memory) WHERE m.text CONTAINS 'still' AND m.speaker = 'Ana' RETURN m.id", ["m5"]),
        (f"MATCH (m:Memory) WHERE m.ts >= {NOW} RETURN m.id", ["m5"]),
        ("MATCH (m:Memory) RETURN count(*)", [6]),
        ("MATCH (a)-[:KNOWS]->(b) RETURN count(DISTINCT a)", [3]),
        ("MATCH (a)-[:KNOWS]->(b), (b)-[:KNOWS]->(c) RETURN c.name", ["Ana"]),
    ],
)  # fmt: skip
async def test_questions_and_their_answers(query: str, found: list[Cell]):
    assert await names(query) == found


async def test_a_whole_thing_is_told_with_what_one_wants_of_it():
    query = (
        "MATCH (m:Memory {id: 'm5'})-[:MENTIONS]->(e {name: 'Ida'})-[r:WORKS_AT]->(b) RETURN m, e, r, b.name AS at"
    )
    answer = await run_cypher(query, GRAPH, TENANT, GraphEntities(GRAPH))
    assert answer.columns == ("m", "e", "r", "at")
    ((memory, entity, relation, at),) = answer.rows
    assert isinstance(memory, Mapping) and isinstance(entity, Mapping) and isinstance(relation, Mapping)
    assert {name: memory[name] for name in ("is", "id", "kind", "text", "speaker", "ts")} == {
        "is": "memory", "id": "m5", "kind": "world", "text": "Ida still works at Fjord Labs.", "speaker": "Ana",
        "ts": NOW,
    }  # fmt: skip
    assert dict(entity) == {"is": "entity", "iri": "urn:orion:entity:ida", "name": "Ida"}
    assert (relation["name"], relation["text"], relation["weight"]) == ("works at", "Ida works at Fjord Labs", 2)
    assert at == "Fjord Labs"


async def test_similar_asks_whoever_finds_similar_entities():
    class Finder:
        asked: list[tuple[str, str]]

        def __init__(self) -> None:
            self.asked = []

        async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
            self.asked.append((text, tenant))
            return ["urn:orion:entity:harbour_engineers"]

    finder = Finder()
    query = "MATCH (a)-[:WORKS_AT]->(b) WHERE b.name SIMILAR 'engineer' RETURN a.name"
    answer = await run_cypher(query, GRAPH, TENANT, finder)
    assert (answer.rows, finder.asked) == ((("Ada",),), [("engineer", TENANT)])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "MATCH (a:Persn) RETURN a",
            r"no label Persn \(did you mean Person\?\): there are Memory, Entity",
        ),
        ("MATCH (a)-[:KNOW]->(b) RETURN a", "there is no relation KNOW in this graph: there is KNOWS"),
        ("MATCH (a) RETURN b", "there is no b in MATCH: there are a"),
        ("MATCH (a) RETURN a.age", "an entity has no age: it has name"),
        ("MATCH (m:Memory) RETURN m.name", "a memory has no name: it has id, kind, text"),
        ("MATCH (a)-[r*1..2]->(b) RETURN r", "r is several relations"),
        ("MATCH (a)-[a]->(b) RETURN a", "a stands for two things"),
        ("MATCH (m:Memory)-[r:NEXT]->(n) RETURN r", "leave out the variable"),
        ("MATCH (a:Person)-[:NEXT]->(b) RETURN a", "a would be both an entity and a memory"),
        ("MATCH (m:Memory)-[:KNOWS]->(b) RETURN b", "a memory's edges are MENTIONS, SPOKEN_BY, NEXT, REFERS_TO"),
        ("MATCH (m:Memory)<-[:MENTIONS]-(b) RETURN b", "would be both"),
        ("MATCH (m:Memory)<--(b) RETURN b", "turn the arrow"),
        ("MATCH (m:Memory)-[*1..2]->(b) RETURN b", "there is one hop"),
        ("MATCH (a)-[:KNOWS|NEXT]->(b) RETURN b", "do not mix"),
        ("MATCH (a) WHERE a.name > 'x' RETURN a", "cannot be compared by >"),
        ("MATCH (a) WHERE a.name = 5 RETURN a", "name is a text"),
        ("MATCH (m:Memory) WHERE m.ts > 'yesterday' RETURN m", "ts is a time"),
        ("MATCH (m:Memory) WHERE m.ts CONTAINS '5' RETURN m", "ts is a number"),
        ("MATCH (m:Memory) WHERE m.title SIMILAR 'x' RETURN m", "the text of a memory"),
        ("MATCH (m:Memory) WHERE m.topic = 'x' RETURN m", "meta_NAME for a field of its metadata"),
        ("MATCH (m:Memory) WHERE m.told DURING 'soon' RETURN m", "'soon' is no time"),
        ("MATCH (m:Memory) WHERE m.told DURING '2026-05-12/2026-05-01' RETURN m", "it ends before it begins"),
        ("MATCH (m:Memory) WHERE m.ts DURING '2026' RETURN m", "DURING compares what is told, not ts"),
        ("MATCH (m:harbour) RETURN m", "a label in backquotes"),
        ("MATCH (a)-[r]->(b) WHERE r.weight > 'x' RETURN r", "weight is a number"),
        ("MATCH (a) RETURN count(*) ORDER BY a.name", "sort by what is returned"),
        ("MATCH (a)-[*1..3]-(b)-[*1..3]-(c)-[*1..3]-(d) RETURN a", "more than 12 ways"),
    ],
)
async def test_what_a_query_cannot_mean_is_said_with_its_place(query: str, message: str):
    graph = sample_graph(PEOPLE)
    with pytest.raises(GraphQueryError, match=message) as caught:
        await rows(query, graph)
    assert caught.value.line == 1 and caught.value.column is not None
    assert len(graph.queries) == 1  # the relations' names alone


HOSTILE = st.text(st.sampled_from("\"'\\\n\r\t{}<>?$#;.:`ab \u2028|&()"), max_size=12) | st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12
)


def quoted(text: str) -> str:
    escapes = {"'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    return "'" + "".join(escapes.get(character, character) for character in text) + "'"


SECRET = Said(id="secret", text="secret", speaker="Eve", statements=(("Eve", "knows", "Secret"),))
SHARED = sample_graph(PEOPLE)
sample_graph([SECRET], tenant="other", into=SHARED.store)
OPERATORS = ["=", "<>", "CONTAINS", "STARTS WITH", "ENDS WITH", "SIMILAR"]


@given(HOSTILE, st.sampled_from(OPERATORS))
@example("'} }} UNION { GRAPH ?g { ?s ?p ?o } } #", "CONTAINS")
@example('")) } } DROP ALL #', "=")
@example('\\"\\u0022 > <urn:x>', "SIMILAR")
async def test_no_text_leaves_its_place_in_the_query(text: str, operator: str):
    store = set(SHARED.store)
    query = (
        f"MATCH (m:Memory {{title: {quoted(text)}}})-[:MENTIONS]->(a) WHERE a.name {operator} {quoted(text)} "
        f"OR m.text CONTAINS {quoted(text)} RETURN m, a"
    )
    assert await rows(query, SHARED) == []  # no memory has a title
    everything = (
        f"MATCH (a) WHERE NOT a.name {operator} {quoted(text)} OR a.name {operator} {quoted(text)} RETURN a.name"
    )
    assert sorted(str(one) for one in await names(everything, SHARED)) == sorted(
        ["Ada", "Ana", "Bergen", "Bo", "Carl", "Fjord Labs", "Harbour Engineers", "Ida", "Software Engineering"]
    )
    assert set(SHARED.store) == store


@given(HOSTILE)
async def test_no_name_of_a_relation_or_label_gets_into_the_query(name: str):
    assume(not name.replace("_", "").isalpha())  # a plain word may be one that there is: REFERS_TO
    graph = sample_graph(PEOPLE[:1])
    with pytest.raises(GraphQueryError):
        await rows(f"MATCH (a)-[:`{name}`]->(b) RETURN a", graph)
    assert len(graph.queries) <= 1
    store = set(graph.store)
    with contextlib.suppress(GraphQueryError):  # too long, or more than one line
        assert await rows(f"MATCH (a:`{name}`) RETURN a", graph) == [], "a label in backquotes is a kind or a tag"
    assert set(graph.store) == store


@pytest.mark.parametrize(
    "name", ['"quoted"', "back\\slash\\", "{brace}", "two\nlines", "<urn:x>", "a'b", "x } UNION {"]
)
async def test_entities_of_hostile_names_are_found_by_them(name: str):
    graph = sample_graph([Said(id="h", text="x", statements=((name, "knows", "Ana"),))])
    assert await names(f"MATCH (a {{name: {quoted(name)}}})-[:KNOWS]->(b) RETURN a.name", graph) == [name]
    assert await names(f"MATCH (a) WHERE a.name CONTAINS {quoted(name)} RETURN a.name", graph) == [name]


async def test_every_query_is_bounded():
    queries = [
        "MATCH (a)-[*1..3]-(b) RETURN a.name, count(*)", "MATCH (a)-[r]->(b) RETURN DISTINCT a ORDER BY a",
        "MATCH (m:Memory)-[:NEXT*1..3]-(n) RETURN m LIMIT 5",
    ]  # fmt: skip
    for query in queries:
        sparql = (await run_cypher(query, GRAPH, TENANT, GraphEntities(GRAPH))).sparql
        assert max(int(limit) for limit in re.findall(r"LIMIT (\d+)", sparql)) <= 100_000
        assert re.search(r"LIMIT \d+$", sparql.strip())
        assert not re.search(r"[>)]\s*[+*](?!\))", sparql)  # no path of any length
        assert re.findall(r"GRAPH <([^>]+)>", sparql) == [f"urn:orion:tenant:{TENANT}"]


async def test_a_query_that_takes_too_long_says_so():
    class Slow(SampleGraph):
        async def select(self, query: str) -> list[Mapping[str, str]]:
            await asyncio.sleep(30)
            return []

    with pytest.raises(TransientSourceError, match=r"took longer than 0.05 s"):
        await run_cypher("MATCH (a) RETURN a", Slow(), TENANT, GraphEntities(GRAPH), timeout_s=0.05)


DATED = sample_graph(
    (
        Said(id="d1", text="Ida met Bo on 12 May 2026.", at=NOW, statements=(("Ida", "met", "Bo"),),
             tags=("harbour",), told=(("2026-05-12", "2026-05-13"),),
             metadata={"project": "crane", "cost": 12, "open": True, "parts": ["a"]}),
        Said(id="d2", text="Ida knows Bo.", at=NOW, statements=(("Ida", "knows", "Bo"),), kind="plan",
             metadata={"project": "boat"}),
        Said(id="d3", text="Bo met Carl in June 2026.", at=NOW, statements=(("Bo", "met", "Carl"),),
             told=(("2026-06-01", "2026-07-01"),)),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("MATCH (a)-[r]-(b {name: 'Bo'}) WHERE r.told DURING '2026-05' RETURN r.text", ["Ida met Bo"]),
        ("MATCH (a)-[r]-(b {name: 'Bo'}) WHERE r.told DURING '2026-05-13' RETURN r.text", []),
        ("MATCH (a)-[r]-(b {name: 'Bo'}) WHERE r.told DURING '2026-05-20/2026-06-02' RETURN r.text",
         ["Bo met Carl"]),
        ("MATCH (a)-[r]-(b {name: 'Bo'}) WHERE NOT r.told DURING '2026' RETURN r.text", ["Ida knows Bo"]),
        ("MATCH (m:Memory) WHERE m.told DURING '2026' RETURN m.id ORDER BY m.id", ["d1", "d3"]),
        ("MATCH (m {id: 'd1'})-[:MENTIONS]->(e {name: 'Bo'}) RETURN m.told",
         ["2026-05-12T00:00:00Z/2026-05-13T00:00:00Z"]),
        ("MATCH (m:Memory {meta_project: 'crane'}) RETURN m.id", ["d1"]),
        ("MATCH (m:Memory) WHERE m.meta_project STARTS WITH 'b' RETURN m.meta_project", ["boat"]),
        ("MATCH (m:Memory {meta_cost: '12', meta_open: 'true'}) RETURN m.id", ["d1"]),
        ("MATCH (m:Memory) WHERE m.meta_parts CONTAINS 'a' RETURN m.id", []),
        ("MATCH (m:`harbour`) RETURN m.id", ["d1"]),
        ("MATCH (m:`plan`)-[:MENTIONS]->(e {name: 'Ida'}) RETURN m.id", ["d2"]),
        ("MATCH (m:`nothing`) RETURN m.id", []),
    ],
)  # fmt: skip
async def test_told_times_metadata_and_labels_of_ones_own(query: str, found: list[Cell]):
    assert await names(query, DATED) == found


async def test_five_hops_are_followed_and_six_are_not():
    chain = sample_graph(
        [Said(id=f"h{n}", text="", statements=((f"N{n}", "knows", f"N{n + 1}"),)) for n in range(6)]
    )
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*5]->(b) RETURN b.name", chain) == ["N5"]
    assert await names("MATCH (a {name: 'N0'})-[:KNOWS*1..5]->(b {name: 'N5'}) RETURN b.name", chain) == ["N5"]
    with pytest.raises(GraphQueryError, match="from 1 to 5"):
        await rows("MATCH (a)-[*6]->(b) RETURN b", chain)


async def test_memories_similar_to_a_text_are_found_by_their_vectors():
    graph = GraphMemories(DATED, HashingEmbedder())
    query = (
        "MATCH (m:Memory)-[:MENTIONS]->(e {name: 'Carl'}) WHERE m.text SIMILAR 'Bo met Carl in June' RETURN m.id"
    )
    found = await run_cypher(query, DATED, TENANT, GraphEntities(DATED), memories=graph)
    assert found.rows == (("d3",),)
    assert await graph.similar_memories("Bo met Carl in June 2026", TENANT, 1) == [
        str(memory_iri(memory_key(TENANT, "d3")))
    ]
    assert await graph.similar_memories("a sunken galleon", TENANT, 9) == []
    assert await graph.similar_memories("the of", TENANT, 9) == []
    none = await run_cypher(
        query.replace("Bo met Carl in June", "galleon"), DATED, TENANT, GraphEntities(DATED), memories=graph
    )
    assert none.rows == ()
