from __future__ import annotations

import pytest

from orion_recall.memory.extraction.assertion import end_of_assertion
from orion_recall.memory.extraction.units import read_sentences


def asserted(text: str) -> str:
    """The words of a sentence that say what is so."""
    (sentence,) = read_sentences(text)
    return " ".join(unit.text for unit in sentence.units[: end_of_assertion(sentence)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mira runs it", "Mira runs it"),
        ("Does Mira run it?", ""),
        ("does Mira run it", ""),
        ("If Mira runs it we stay", ""),
        ("Mira runs it; if you need her, call", "Mira runs it ;"),
        ("Apparently Mira runs it", ""),
        ("Mira runs it, probably", ""),
        ("My sister Mira thinks Bo runs it", "My sister Mira"),
        ("Bo told me Mira runs it", "Bo"),
        ("In the film Mira runs it", ""),
    ],
)
def test_only_what_is_said_to_be_so_is_asserted(text: str, expected: str) -> None:
    assert asserted(text) == expected
