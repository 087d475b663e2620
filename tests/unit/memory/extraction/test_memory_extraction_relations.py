from __future__ import annotations

import pytest

from orion_recall.memory.extraction.persons import UNKNOWN, Persons
from orion_recall.memory.extraction.relations import find_statements
from orion_recall.memory.extraction.units import read_sentences

Edge = tuple[str, str, str]


def stated(text: str, speaker: str | None = "Ana") -> list[Edge]:
    persons = Persons(speaker)
    return [
        (found.subject, found.relation, found.object)
        for sentence in read_sentences(text)
        for found in find_statements(sentence, speaker, persons)
        if UNKNOWN not in (found.subject, found.object)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I work at Fjord Labs.", ("Ana", "works at", "Fjord Labs")),
        ("I'm working for Fjord Labs now.", ("Ana", "works at", "Fjord Labs")),
        ("Mira's working at Fjord Labs.", ("Mira", "works at", "Fjord Labs")),
        ("We moved to Oslo!", ("Ana", "moved to", "Oslo")),
        ("Mira has just moved to Oslo", ("Mira", "moved to", "Oslo")),
        ("Mira used to live in Oslo", ("Mira", "lived in", "Oslo")),
        ("My sister Mira called.", ("Mira", "sister of", "Ana")),
        ("My older sister is Mira.", ("Mira", "sister of", "Ana")),
        ("My mom's name is Eva.", ("Eva", "mother of", "Ana")),
        ("Bo's manager Mira is here", ("Mira", "manager of", "Bo")),
        ("Mira is Bo's manager", ("Mira", "manager of", "Bo")),
        ("Mira, my brother, agreed", ("Mira", "brother of", "Ana")),
        ("Oslo is the capital of Norway", ("Oslo", "capital of", "Norway")),
        ("I'm a nurse at Fjord Labs", ("Ana", "nurse at", "Fjord Labs")),
        ("Mira married Bo", ("Mira", "married to", "Bo")),
        ("Mira is married to Bo", ("Mira", "married to", "Bo")),
        ("Mira was born in Oslo", ("Mira", "born in", "Oslo")),
        ("Fjord Labs was founded by Mira", ("Fjord Labs", "founded by", "Mira")),
        ("Mira reports to Bo", ("Mira", "reports to", "Bo")),
        ("Mira works with me", ("Mira", "works with", "Ana")),
        ('I read "Moby Dick"', ("Ana", "read", "Moby Dick")),
        ("It seems Dune was written by American author Frank Herbert", ("Dune", "written by", "Frank Herbert")),
        ("Mira is from Oslo", ("Mira", "is from", "Oslo")),
    ],
)
def test_a_plain_sentence_states_one_thing(text: str, expected: Edge) -> None:
    assert stated(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Bo made the Lynx squad.",
        "Bo made the Lynx under-fifteen squad.",
        "Mira made the Olympics!",
        "Mira made friends with Bo.",
        "Mira made Bo laugh.",
        "Mira made it to Oslo, and made sense.",
    ],
)
def test_whoever_gets_into_something_has_not_made_it(text: str) -> None:
    assert [edge for edge in stated(text) if edge[1] == "created"] == []


@pytest.mark.parametrize("text", ["Mira made Skerry.", "Mira made the Skerry app.", "Mira built Skerry in May."])
def test_whoever_makes_something_has_made_it(text: str) -> None:
    assert stated(text) == [("Mira", "created", "Skerry")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mira owns 9 Quay Street now.", ("Mira", "owns", "9 Quay Street")),
        ("Mira bought 12 Elm Lane.", ("Mira", "bought", "12 Elm Lane")),
        ("Mira owns Quay Street.", ("Mira", "owns", "Quay Street")),
        ("Mira sold 3 Skerry boats.", ("Mira", "sold", "Skerry")),
        ("Mira lives in 9 Quay Street.", ("Mira", "lives in", "Quay Street")),
    ],
)
def test_a_house_that_is_owned_has_its_number(text: str, expected: Edge) -> None:
    assert stated(text) == [expected]


def test_a_named_pet_is_had_and_is_what_it_is() -> None:
    assert stated("I have a small dog named Rex") == [("Ana", "has", "Rex"), ("Rex", "dog of", "Ana")]


def test_it_and_there_are_what_the_sentence_before_names() -> None:
    assert ("Mira", "owns", "Villa Rosa") in stated("We slept at Villa Rosa. Mira owns it.")
    assert ("Villa Rosa", "belongs to", "Mira") in stated("Villa Rosa is by the lake. It belongs to Mira.")
    assert ("Ana", "works at", "Fjord Labs") in stated("Mira joined Fjord Labs. I work there too.")


@pytest.mark.parametrize(
    "text",
    [
        "We saw Villa Rosa and Villa Blu in Oslo and Bergen. Mira owns it.",
        "Thanks, Mira! I love it.",
        "It rained in Oslo. It belongs to nobody.",
        "Mira left her umbrella at Villa Rosa.",
        "Mira left Bo a note.",
    ],
)
def test_it_means_nothing_where_it_may_mean_several(text: str) -> None:
    assert [edge for edge in stated(text) if edge[1] in ("owns", "belongs to", "loves", "left")] == []


def test_a_thing_without_a_name_has_an_owner() -> None:
    assert stated("Mira owns the billing service") == [("Mira", "owns", "billing service")]
    assert stated("The billing service belongs to Mira") == [("billing service", "belongs to", "Mira")]
    assert stated("Mira owns the house") == []


def test_two_subjects_share_a_verb() -> None:
    assert stated("Mira and Bo both report to me") == [("Mira", "reports to", "Ana"), ("Bo", "reports to", "Ana")]


def test_work_that_is_described() -> None:
    assert stated("Mira works as a sound engineer for Fjord Labs") == [("Mira", "works at", "Fjord Labs")]
    assert stated("Mira does my accounts") == [("Mira", "accountant of", "Ana")]
    assert stated("Mira is on the Nansen team") == [("Mira", "part of", "Nansen")]


def test_the_subject_goes_on_after_a_parenthesis() -> None:
    assert stated("Mira (met in Oslo) lives in Bergen")[-1] == ("Mira", "lives in", "Bergen")


def test_a_subject_stays_for_a_second_verb() -> None:
    assert stated("Mira works at Fjord Labs and lives in Oslo") == [
        ("Mira", "works at", "Fjord Labs"),
        ("Mira", "lives in", "Oslo"),
    ]


def test_who_takes_the_name_before_it() -> None:
    assert stated("Mira met Bo, who lives in Oslo") == [("Mira", "met", "Bo"), ("Bo", "lives in", "Oslo")]


def test_a_list_of_objects_is_one_statement_each() -> None:
    assert [edge[2] for edge in stated("I visited Oslo, Bergen and Rome")] == ["Oslo", "Bergen", "Rome"]


@pytest.mark.parametrize(
    "text",
    [
        "I don't like Oslo",
        "Mira never lived in Oslo",
        "Do you work at Fjord Labs? Did Mira marry Bo?",
        "If Mira moved to Oslo, we cheered",
        "Mira wants to move to Oslo",
        "She lives in Oslo",
        "people like Mira",
        "the train from Oslo, with Mira from Bergen",
        "Mira met Mira",
        "my sister's dog Rex",
    ],
)
def test_what_is_denied_asked_or_unclear_states_nothing(text: str) -> None:
    assert stated(text) == []


def test_the_first_person_states_nothing_when_nobody_is_known_to_speak() -> None:
    assert stated("I work at Fjord Labs and my sister Mira lives", None) == []
