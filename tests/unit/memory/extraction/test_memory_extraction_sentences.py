from __future__ import annotations

import pytest

from orion_recall.memory.extraction.sentences import read_sentences


def names(text: str, *known: str) -> list[str]:
    return [unit.text for sentence in read_sentences(text, known) for unit in sentence.units if unit.kind == "name"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We saw Mira Chen and Bo.", ["Mira Chen", "Bo"]),
        ("But Ana left. Yesterday Bo came.", ["Ana", "Bo"]),
        ("On Friday in March I met him.", []),
        ("He adored Ludwig van Beethoven.", ["Ludwig van Beethoven"]),
        ("She studied at the University of Oslo.", ["University of Oslo"]),
        ("Ask Dr. Smith or J. R. R. Tolkien.", ["Dr. Smith", "J. R. R. Tolkien"]),
        ("Ana's Toyota is new", ["Ana", "Toyota"]),
        ("my iPhone and the eBay shop", ["iPhone", "eBay"]),
        ("they run Johnson & Johnson", ["Johnson & Johnson"]),
        ("“The Name of the Wind” by Rothfuss", ["The Name of the Wind", "Rothfuss"]),
        ('She wrote "the grinder" and said "I am done."', ["the grinder"]),
        ("Thanks, José!", ["José"]),
        ("We met Mrs. Ten Have and Anna ten Have today.", ["Mrs. Ten Have", "Anna ten Have"]),
        ("Ask Mr. Van der Berg or Dr. De Vries", ["Mr. Van der Berg", "Dr. De Vries"]),
        ("Mira likes tea.", ["Mira"]),
    ],
)
def test_names_are_quoted_phrases_and_capitalised_runs(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Running is fun, and running hurts. Great!",
        "I LOVE THIS SO MUCH",
        "Next Steps",
        "# Mira Chen and what she did",
        "Impact: three hours without a service",
        "Agenda: Budget, Travel",
        "at 14:00 UTC the API answered with JSON",
        "Commander's intent stays with the Commander.",
        "The Board met in Room 12.",
        "I saw the Dr. On Monday he is away.",
        "Thank you, Professor!",
        "Coffee beans are dear.",
        "it is " + "Abcdefghij" * 9,
    ],
)
def test_titles_headings_acronyms_and_sentence_starts_are_no_names(text: str) -> None:
    assert names(text) == []


def test_a_known_name_is_found_in_lower_case_and_in_a_heading() -> None:
    assert names("we meet at fjord labs, not at acme", "Fjord Labs") == ["fjord labs"]
    assert names("Notes Of Mira Chen", "Mira Chen") == ["Mira Chen"]
