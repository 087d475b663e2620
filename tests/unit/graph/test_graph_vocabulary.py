from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Dataset, Literal, URIRef
from rdflib.namespace import RDF, SKOS

from orion_recall.graph.vocabulary import (
    ORION,
    edge_of,
    edge_triples,
    entity_iri,
    memory_iri,
    memory_triples,
    relation_iri,
    sentence,
    tenant_graph,
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


def test_the_graph_says_everything_of_a_memory_that_a_reader_needs():
    made = memory(title="T", speaker="Ana", session_id="s", user_id="u", uri="x:1", version=3, occurred_at=5.0,
                  tags=("t1", "t2"), entities=("Ana", "Fjord Labs"))  # fmt: skip
    told = set(memory_triples(made))
    assert (B, RDF.type, ORION.Memory) in told
    for name, value in {
        "id": "b", "content": "words", "title": "T", "kind": "world", "speaker": "Ana", "session": "s",
        "user": "u", "uri": "x:1", "occurred": 5.0, "version": 3,
    }.items():  # fmt: skip
        assert (B, ORION[name], Literal(value)) in told
    assert {str(value) for _, name, value in told if name == ORION.tag} == {"t1", "t2"}
    assert (B, ORION.spokenBy, entity_iri("Ana")) in told
    assert [value for _, name, value in told if name == ORION.mentions] == [entity_iri("Fjord Labs")]
    assert {str(value) for _, name, value in told if name == ORION.named} == {"Ana", "Fjord Labs"}


@pytest.mark.parametrize(
    ("times", "told"),
    [({"occurred_at": 0.0, "mentioned_at": 9.0}, 0.0), ({"mentioned_at": 9.0}, 9.0), ({}, None)],
    ids=str,
)
def test_a_memorys_time_is_when_it_happened_else_when_it_was_mentioned(times: dict[str, Any], told: float | None):
    found = [value for _, name, value in memory_triples(memory(**times)) if name == ORION.occurred]
    assert found == ([] if told is None else [Literal(told)])


def test_a_memory_refers_to_the_ids_its_sender_names():
    one = memory(metadata={"in_reply_to": "a", "refers_to": ["c", "b"]}, text="As [[d]] says.")
    told = list(memory_triples(one))
    assert [value for _, name, value in told if name == ORION.refersTo] == [
        memory_iri(memory_key("acme", name)) for name in "acd"
    ]


def test_an_edge_is_one_for_all_spellings_and_says_what_it_connects():
    edge = edge_of(WORKS)
    assert edge_of(Statement(subject="ANA", relation="Works at", object="fjord labs")).iri == edge.iri
    assert edge_of(Statement(subject="Fjord Labs", relation="works at", object="Ana")).iri != edge.iri
    told = set(edge_triples(edge))
    for name, value in {
        RDF.type: RDF.Statement, RDF.subject: entity_iri("Ana"), RDF.predicate: relation_iri("works at"),
        RDF.object: entity_iri("Fjord Labs"),
    }.items():  # fmt: skip
        assert (edge.iri, name, value) in told
    assert {value for _, name, value in told if name == ORION.about} == {
        entity_iri("Ana"),
        entity_iri("Fjord Labs"),
    }
    assert (relation_iri("works at"), SKOS.prefLabel, Literal("works at")) in told
    assert sentence(WORKS) == "Ana works at Fjord Labs"


def test_triples_can_be_stored_whatever_the_texts():
    hostile = 'a"b\\c\nd\u202e<x> {y} \U0001f600'
    made = memory(id=hostile, text=hostile, speaker=hostile, entities=(hostile,), tags=(hostile,),
                  statements=(Statement(subject=hostile, relation=hostile, object=hostile),))  # fmt: skip
    dataset = Dataset()
    for triple in (*memory_triples(made), *edge_triples(edge_of(made.statements[0]))):
        dataset.default_graph.add(triple)
    (text,) = dataset.default_graph.objects(memory_iri(memory_key("acme", hostile)), ORION.content)
    assert str(text) == hostile
