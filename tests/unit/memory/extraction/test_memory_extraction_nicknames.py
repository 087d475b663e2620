from __future__ import annotations

import pytest

from orion_recall.memory.extraction.light import extract


def nicknames(text: str) -> list[tuple[str, str]]:
    return [(edge.subject, edge.object) for edge in extract(text, "Ana").statements if edge.relation == "known as"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wilhelmina, we call her Billie, is late.", ("Wilhelmina", "Billie")),
        ("Wilhelmina Berg, Billie to her friends, is late.", ("Wilhelmina Berg", "Billie")),
        ("Wilhelmina, Billie for short, is late.", ("Wilhelmina", "Billie")),
        ("Billie, as we all call Wilhelmina, is late.", ("Wilhelmina", "Billie")),
        ("Everybody calls Wilhelmina Billie.", ("Wilhelmina", "Billie")),
        ("Billie is short for Wilhelmina.", ("Wilhelmina", "Billie")),
        ("Wilhelmina goes by Billie.", ("Wilhelmina", "Billie")),
        ("Wilhelmina is better known as Billie.", ("Wilhelmina", "Billie")),
        ("My friends call me Annie.", ("Ana", "Annie")),
    ],
)
def test_a_nickname_belongs_to_who_is_called_so(text: str, expected: tuple[str, str]) -> None:
    assert nicknames(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Call Mira about the invoice.",
        "I call Mira every Sunday.",
        "They called Mira a hero.",
        "We will call Mira Berg.",
        "Does anybody call her Billie?",
        "From Oslo, Bergen to the north and Moss to the south.",
    ],
)
def test_calling_somebody_is_no_nickname(text: str) -> None:
    assert nicknames(text) == []


def test_both_names_are_entities() -> None:
    assert {"Wilhelmina", "Billie"} <= set(extract("Everybody calls Wilhelmina Billie.", "Ana").entities)
