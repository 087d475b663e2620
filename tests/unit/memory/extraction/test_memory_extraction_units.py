from __future__ import annotations

import pytest

from orion_recall.memory.extraction.units import read_sentences


def names(text: str, *known: str) -> list[str]:
    return [unit.text for sentence in read_sentences(text, known) for unit in sentence.units if unit.kind == "name"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We saw Mira Chen and Bo.", ["Mira Chen", "Bo"]),
        ("But Ana left. Yesterday Bo came.", ["Ana", "Bo"]),
        ("Running is fun, and running hurts. Great!", []),
        ("On Friday in March I met him.", []),
        ("He adored Ludwig van Beethoven.", ["Ludwig van Beethoven"]),
        ("She studied at the University of Oslo.", ["University of Oslo"]),
        ("Ask Dr. Smith or J. R. R. Tolkien.", ["Dr. Smith", "J. R. R. Tolkien"]),
        ("Ana's Toyota is new", ["Ana", "Toyota"]),
        ("I LOVE THIS SO MUCH", []),
        ("my iPhone and the eBay shop", ["iPhone", "eBay"]),
        ("they run Johnson & Johnson", ["Johnson & Johnson"]),
        ("“The Name of the Wind” by Rothfuss", ["The Name of the Wind", "Rothfuss"]),
        ("Thanks, José!", ["José"]),
    ],
)
def test_names_are_quoted_phrases_and_capitalised_runs(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met Mrs. Ten Have today.", ["Mrs. Ten Have"]),
        ("Mr. Ten Have's piano is loud.", ["Mr. Ten Have"]),
        ("Mrs Ten Have is here.", ["Ten Have"]),
        ("Mrs. ten Have and Anna ten Have came.", ["Mrs. ten Have", "Anna ten Have"]),
        ("Mr. Van der Berg and Dr. De Vries", ["Mr. Van der Berg", "Dr. De Vries"]),
        ("Ask Mr. Will, or Mrs. May.", ["Mr. Will", "Mrs. May"]),
        ("I met Mr. Ten Have On Friday", ["Mr. Ten Have"]),
        ("I saw Mr. Smith Monday", ["Mr. Smith"]),
    ],
)
def test_behind_a_title_common_words_are_a_name(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text", ["I saw the Dr. On Monday he is away.", "Thanks Dr. Do you know?", "Ask the Mr. or so"]
)
def test_a_title_alone_is_no_name(text: str) -> None:
    assert names(text) == []


def test_a_day_of_the_week_behind_a_particle_is_no_part_of_a_name() -> None:
    assert names("see you in Aula ten Monday") == ["Aula ten"]


def test_a_known_name_is_found_in_lower_case() -> None:
    assert names("we meet at fjord labs, not at acme", "Fjord Labs") == ["fjord labs"]


def test_a_known_name_does_not_cut_a_longer_one_short() -> None:
    assert names("we met Ana Silva", "Ana") == ["Ana Silva"]


def test_a_name_of_more_than_eighty_characters_is_no_name() -> None:
    assert names("it is " + "Abcdefghij" * 9) == []


def test_a_question_is_told_by_its_mark() -> None:
    assert [sentence.question for sentence in read_sentences("So it is. Is it? Yes!")] == [False, True, False]
