from __future__ import annotations

import pytest

from orion_recall.memory.extraction.light import Extraction, extract
from orion_recall.values import Neighbour

Edge = tuple[str, str, str]


def stated(found: Extraction) -> list[Edge]:
    return [(edge.subject, edge.relation, edge.object) for edge in found.statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mira called. She works at Fjord Labs.", ("Mira", "works at", "Fjord Labs")),
        ("I talked to Bo. He lives in Bergen.", ("Bo", "lives in", "Bergen")),
        ("Ana Silva praised Bo. She works at Fjord Labs.", ("Ana Silva", "works at", "Fjord Labs")),
        ("My brother Bo and Mira came. She works at Fjord Labs.", ("Mira", "works at", "Fjord Labs")),
        ("We saw Mira in Oslo. She's from Bergen.", ("Mira", "is from", "Bergen")),
        ("Mira called, because she moved to Oslo.", ("Mira", "moved to", "Oslo")),
        ("Mira is kind. I met her yesterday.", ("Tom", "met", "Mira")),
        ("Mira is kind. Her brother Bo called.", ("Bo", "brother of", "Mira")),
        ("Mira called. It rained. He's the CEO of Fjord Labs.", ("Mira", "ceo of", "Fjord Labs")),
        (
            "Mira Holt came about the room. Solar engineer, ten years, no cats. I like her.",
            ("Tom", "likes", "Mira Holt"),
        ),
        ("Mira next door has a cat. I like her.", ("Tom", "likes", "Mira")),
        ("We have a new neighbour. Mira. I like her.", ("Tom", "likes", "Mira")),
    ],
)
def test_a_pronoun_is_the_one_person_that_it_can_mean(text: str, expected: Edge) -> None:
    assert expected in stated(extract(text, "Tom"))


@pytest.mark.parametrize(
    "text",
    [
        "I saw Mira with Bo. She works at Fjord Labs.",
        "Mira and Bo came. He works at Fjord Labs.",
        "They work at Fjord Labs.",
        "My sister Mira called. He works at Fjord Labs.",
        "We went to Oslo. She works at Fjord Labs.",
        "I joined Bergen University. She works at Fjord Labs.",
        "NASA called. She works at Fjord Labs.",
        "Tom is me. He works at Fjord Labs.",
        'I read "Emma". She works at Fjord Labs.',
        "If Mira called, she works at Fjord Labs.",
        "Mira called. Does she work at Fjord Labs?",
        "Solar engineer, ten years. She works at Fjord Labs.",
    ],
)
def test_of_several_or_of_nobody_nothing_is_stated(text: str) -> None:
    assert [edge for edge in stated(extract(text, "Tom")) if edge[2] == "Fjord Labs"] == []


def test_a_person_of_the_turn_before_is_meant_and_is_an_entity_then() -> None:
    before = Neighbour(id="x", text="We had lunch. Mira Hansen says hello!", speaker="Bo")
    found = extract("She works at Fjord Labs.", "Tom", previous=before)
    assert stated(found) == [("Mira Hansen", "works at", "Fjord Labs")]
    assert found.entities == ("Fjord Labs", "Mira Hansen", "Tom")
    assert extract("Good.", "Tom", previous=before).entities == ("Tom",)


def test_else_the_speaker_of_the_turn_before_is_unless_it_is_the_same_one() -> None:
    def after(speaker: str) -> list[Edge]:
        before = Neighbour(id="x", text="I like it here, Tom.", speaker=speaker)
        return stated(extract("She moved to Oslo.", "Tom", previous=before))

    assert after("Ana") == [("Ana", "moved to", "Oslo")]
    assert after("tom") == []


def test_the_text_itself_comes_before_the_turn_before() -> None:
    before = Neighbour(id="x", text="Mira called.", speaker="Bo")
    found = extract("I met Eva. She moved to Oslo.", "Tom", previous=before)
    assert ("Eva", "moved to", "Oslo") in stated(found)


def test_only_what_the_turn_before_could_tell_lacks_context() -> None:
    assert extract("She moved to Oslo.", "Tom").lacks_context
    assert extract("I met her.", "Tom").lacks_context
    assert extract("Her brother Bo called.", "Tom").lacks_context
    assert not extract("She is nice.", "Tom").lacks_context
    assert not extract("I saw Mira with Bo. She moved to Oslo.", "Tom").lacks_context
    before = Neighbour(id="x", text="Hm.", speaker=None)
    assert not extract("She moved to Oslo.", "Tom", previous=before).lacks_context


@pytest.mark.parametrize("word", ["Quick", "Weird", "Gorgeous", "Everywhere"])
def test_a_common_word_at_the_start_of_a_sentence_is_no_name(word: str) -> None:
    assert extract(f"{word} question for Bo.").entities == ("Bo",)
    assert extract("Real Madrid won. New York slept.").entities == ("Real Madrid", "New York")
