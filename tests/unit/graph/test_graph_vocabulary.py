from __future__ import annotations

from typing import Any

import pyoxigraph
from hypothesis import assume, example, given
from hypothesis import strategies as st
from rdflib import Dataset, Literal, URIRef

from orion_recall.graph.vocabulary import (
    ORION,
    edge_of,
    edge_triples,
    entity_iri,
    memory_iri,
    memory_triples,
    read_window,
    relation_iri,
    sparql_term,
    tenant_graph,
    window,
)
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory, Statement

WORKS = Statement(subject="Ana", relation="works at", object="Fjord Labs")
B = memory_iri(memory_key("acme", "b"))
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


def memory(**fields: Any) -> Memory:
    values: dict[str, Any] = {
        "tenant": "acme", "id": "b", "text": "words", "kind": "world", "text_hash": "", "content_hash": "",
    }  # fmt: skip
    return Memory(**(values | fields))


def test_case_and_punctuation_do_not_make_another_entity():
    assert entity_iri("Fjord Labs") == entity_iri(" fjord-labs! ") == URIRef("urn:orion:entity:fjord_labs")
    assert entity_iri("Fjord") != entity_iri("Labs")
    assert entity_iri("👍") != entity_iri("👎")


@given(TEXT)
def test_any_name_makes_an_iri_that_stays_in_its_brackets(text: str):
    for iri in (entity_iri(text), relation_iri(text), tenant_graph(text)):
        written = iri.n3()
        assert written.startswith("<urn:orion:")
        assert not set(written[1:-1]) & set('<>"{}|^`\\ \n')


@given(st.text(st.characters(codec="utf-8"), max_size=8), st.text(st.characters(codec="utf-8"), max_size=8))
def test_no_two_tenants_share_a_graph(one: str, other: str):
    assert (tenant_graph(one) == tenant_graph(other)) == (one == other)


def test_a_memory_refers_to_the_ids_its_sender_names():
    one = memory(metadata={"in_reply_to": "a", "refers_to": ["c", "b"]}, text="As [[d]] says.")
    told = list(memory_triples(one))
    assert [value for _, name, value in told if name == ORION.refersTo] == [
        memory_iri(memory_key("acme", name)) for name in "acd"
    ]


def test_triples_can_be_stored_whatever_the_texts():
    hostile = 'a"b\\c\nd\u202e<x> {y} \U0001f600'
    made = memory(id=hostile, text=hostile, speaker=hostile, entities=(hostile,), tags=(hostile,),
                  statements=(Statement(subject=hostile, relation=hostile, object=hostile),))  # fmt: skip
    dataset = Dataset()
    for triple in (*memory_triples(made), *edge_triples(edge_of(made.statements[0]))):
        dataset.default_graph.add(triple)
    (text,) = dataset.default_graph.objects(memory_iri(memory_key("acme", hostile)), ORION.content)
    assert str(text) == hostile


@given(st.text(st.sampled_from("\"'\\\n\r\tu0{}<>#;.ab ü\u2028"), max_size=12) | TEXT)
@example('two\nlines\\"')
@example('\n"""')
def test_a_text_is_read_back_as_it_was(text: str):
    assume("\x00" not in text)
    query = f'SELECT ?x ("end" AS ?y) WHERE {{ VALUES ?x {{ {sparql_term(Literal(text))} }} }}'
    found = pyoxigraph.Store().query(query)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    assert [(row["x"].value, row["y"].value) for row in found] == [(text, "end")]


@given(st.integers(-30_000_000_000, 200_000_000_000), st.integers(60, 10_000_000))
def test_windows_are_read_as_they_were_written_and_sort_by_time(since: int, length: int):
    made = window(float(since), float(since + length))
    assert made is not None
    assert read_window(made)[:2] == (since, since + length)
    later = window(float(since + 1), float(since + length))
    assert later is not None and made < later
