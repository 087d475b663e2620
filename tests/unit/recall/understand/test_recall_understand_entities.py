from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.people import MOST_ENTITIES, entities


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Ana Silva say about Fjord Labs?", ["Ana Silva", "Fjord Labs"]),
        ("What is Balthasar Rook's aunt called?", ["Balthasar Rook"]),
        ("Who taught at the University of Oslo in May?", ["University of Oslo"]),
        ("Tell me about Monday's plan", []),
        ("What will I do?", []),
        ('Who wrote "the grinder" for Oxna?', ["the grinder", "Oxna"]),
        ("what happened to the crane", []),
    ],
)
def test_names_are_quoted_first_then_capitalised(text: str, named: list[str]):
    assert [entity.name for entity in entities(text)] == named


def test_what_is_known_is_found_in_lower_case_and_spelt_as_it_is_known():
    found = entities("did bo and ana silva meet Mira?", ("Bo", "Ana Silva"))
    assert [(one.name, one.kind) for one in found] == [
        ("Mira", "capitalised"),
        ("Bo", "known"),
        ("Ana Silva", "known"),
    ]


def test_a_name_is_told_once_by_the_best_of_what_gives_it_away():
    (found,) = entities('Is "Bo" the same as Bo, or bo?', ("Bo",))
    assert (found.name, found.kind) == ("Bo", "quoted")


def test_in_german_capitals_alone_name_nobody():
    text = "Wer hat dem Opa die Säge von Manni gebracht?"
    assert [one.name for one in entities(text, ("Manni",), language="german")] == ["Manni"]


@given(st.text(max_size=2_000))
def test_any_text_can_be_read(text: str):
    found = entities(text, ("Ana", "Bo Lund"))
    assert len(found) <= MOST_ENTITIES
    assert len({one.name.casefold() for one in found}) == len(found)
