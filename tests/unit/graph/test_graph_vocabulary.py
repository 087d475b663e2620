from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Dataset, Literal, URIRef
from rdflib.namespace import RDF, RDFS, SKOS

from orion_recall.graph.vocabulary import (
    ORION,
    all_entities,
    alternative_labels,
    entity_iri,
    key_of,
    memory_iri,
    outdated,
    sentence,
    tenant_graph,
    triples,
)
from orion_recall.text import memory_key
from orion_recall.values import Change, Memory, MergedName, Neighbour, Statement

WORKS = Statement(subject="Ana", relation="works at", object="Fjord Labs")
A, B, C = (memory_iri(memory_key("acme", name)) for name in "abc")


def change(*, previous: str | None = None, following: str | None = None, **fields: Any) -> Change:
    values: dict[str, Any] = {
        "tenant": "acme", "id": "b", "text": "words", "kind": "world", "text_hash": "", "content_hash": "",
    }  # fmt: skip
    made = Memory(**(values | fields))

    def turn(name: str | None) -> Neighbour | None:
        return Neighbour(id=name, text="", speaker=None) if name else None

    return Change(position=1, memory=made, previous=turn(previous), following=turn(following))


def test_a_memorys_iri_is_its_key_in_the_index():
    key = 2**63 - 1
    assert str(memory_iri(key)) == f"urn:orion:memory:{key}"
    assert key_of(str(memory_iri(key))) == key


def test_case_and_punctuation_do_not_make_another_entity():
    assert entity_iri("Fjord Labs") == entity_iri(" fjord-labs! ") == URIRef("urn:orion:entity:fjord_labs")
    assert entity_iri("Fjord") != entity_iri("Labs")
    assert entity_iri("👍") != entity_iri("👎")


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_name_makes_an_iri_that_stays_in_its_brackets(text: str):
    for iri in (entity_iri(text), tenant_graph(text)):
        written = iri.n3()
        assert written.startswith("<urn:orion:")
        assert not set(written[1:-1]) & set('<>"{}|^`\\ \n')


@given(st.text(st.characters(codec="utf-8"), max_size=8), st.text(st.characters(codec="utf-8"), max_size=8))
def test_no_two_tenants_share_a_graph(one: str, other: str):
    assert (tenant_graph(one) == tenant_graph(other)) == (one == other)


def test_the_graph_says_everything_of_a_memory_that_a_reader_needs():
    told = set(triples(change(title="T", speaker="Ana", session_id="s", user_id="u", uri="x:1", occurred_at=5.0,
                              tags=("t1", "t2"), entities=("Ana", "Fjord Labs"))))  # fmt: skip
    assert (B, RDF.type, ORION.Memory) in told
    for name, value in {
        "id": "b", "content": "words", "title": "T", "kind": "world", "speaker": "Ana", "session": "s",
        "user": "u", "uri": "x:1", "occurred": 5.0,
    }.items():  # fmt: skip
        assert (B, ORION[name], Literal(value)) in told
    assert {str(value) for _, name, value in told if name == ORION.tag} == {"t1", "t2"}
    assert (B, ORION.spokenBy, entity_iri("Ana")) in told
    assert [value for _, name, value in told if name == ORION.mentions] == [entity_iri("Fjord Labs")]
    assert (entity_iri("Fjord Labs"), RDFS.label, Literal("Fjord Labs")) in told


@pytest.mark.parametrize(
    ("times", "told"),
    [({"occurred_at": 0.0, "mentioned_at": 9.0}, 0.0), ({"mentioned_at": 9.0}, 9.0), ({}, None)],
    ids=str,
)
def test_a_memorys_time_is_when_it_happened_else_when_it_was_mentioned(times: dict[str, Any], told: float | None):
    found = [value for _, name, value in triples(change(**times)) if name == ORION.occurred]
    assert found == ([] if told is None else [Literal(told)])


def test_a_statement_is_about_both_its_ends_and_says_where_it_is_from():
    told = set(triples(change(statements=(WORKS,))))
    (node,) = {subject for subject, name, _ in told if name == ORION.text}
    assert (node, ORION.text, Literal("Ana works at Fjord Labs")) in told
    assert (node, ORION["from"], B) in told
    assert {value for subject, name, value in told if (subject, name) == (node, ORION.about)} == {
        entity_iri("Ana"), entity_iri("Fjord Labs"),
    }  # fmt: skip
    assert sentence(WORKS) == "Ana works at Fjord Labs"


def test_the_same_memory_gives_the_same_triples():
    one = change(statements=(WORKS,), entities=("Ana",), previous="a")
    assert list(triples(one)) == list(triples(one))


def test_a_turn_follows_the_one_before_it_and_precedes_the_one_after():
    edges = {
        (one, other) for one, name, other in triples(change(previous="a", following="c")) if name == ORION.next
    }
    assert edges == {(A, B), (B, C)}
    assert not [name for _, name, _ in triples(change()) if name == ORION.next]


def test_every_edge_that_a_late_turn_may_have_cut_is_outdated():
    assert set(outdated(change(previous="a", following="c"))) == {
        (A, ORION.next, None), (None, ORION.next, B), (B, ORION.next, None), (None, ORION.next, C),
    }  # fmt: skip
    assert list(outdated(change())) == []


def test_all_entities_are_those_named_the_speaker_and_the_ends_of_statements():
    made = change(entities=("Bergen",), speaker="Bo", statements=(WORKS,)).memory
    assert all_entities(made) == {"Bergen", "Bo", "Ana", "Fjord Labs"}


def test_triples_can_be_stored_whatever_the_texts():
    hostile = 'a"b\\c\nd\u202e<x> {y} \U0001f600'
    made = change(id=hostile, text=hostile, speaker=hostile, entities=(hostile,), tags=(hostile,),
                  statements=(Statement(subject=hostile, relation=hostile, object=hostile),))  # fmt: skip
    dataset = Dataset()
    for triple in triples(made):
        dataset.default_graph.add(triple)
    (text,) = dataset.default_graph.objects(memory_iri(memory_key("acme", hostile)), ORION.content)
    assert str(text) == hostile


def test_a_merged_name_is_another_label_of_the_entity_who_speaks_under_it():
    merged = (MergedName(label="Robert Miles", aliases=("Bob", "Bobby")),)
    told = set(triples(replace(change(speaker="Bob", entities=("Robert Miles",)), merged=merged)))
    robert = entity_iri("Robert Miles")
    assert (B, ORION.spokenBy, robert) in told
    assert (B, ORION.speaker, Literal("Bob")) in told
    assert {value for subject, name, value in told if (subject, name) == (robert, SKOS.altLabel)} == {
        Literal("Bob"),
        Literal("Bobby"),
    }
    assert entity_iri("Bob") not in {term for triple in told for term in triple}
    assert list(alternative_labels(change(entities=("Robert Miles",)))) == []
