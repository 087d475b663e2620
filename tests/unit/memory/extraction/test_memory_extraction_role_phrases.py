from __future__ import annotations

import pytest

from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.role_phrases import RolePhrase, RoleReader
from orion_recall.memory.extraction.units import read_sentences


def phrase(text: str, speaker: str | None = "Ana") -> RolePhrase | None:
    (sentence,) = read_sentences(text)
    return RoleReader(sentence.units, speaker, Persons(speaker)).phrase(0)


@pytest.mark.parametrize(
    ("text", "owner", "role"),
    [
        ("my older sister", "Ana", "sister"),
        ("our new project manager", "Ana", "project manager"),
        ("Bo's piano teacher", "Bo", "teacher"),
        ("Bo's line manager", "Bo", "manager"),
        ("my French tutor", "Ana", "tutor"),
        ("my mum", "Ana", "mother"),
        ("my twin brother", "Ana", "brother"),
        ("my head of sales", "Ana", "head of sales"),
        ("the treasurer", None, "treasurer"),
    ],
)
def test_the_last_word_is_the_role_by_its_one_name(text: str, owner: str | None, role: str) -> None:
    read = phrase(text)
    assert read is not None
    assert (read.owner, read.role, read.is_current) == (owner, role, True)


@pytest.mark.parametrize("text", ["my former boss", "Bo's old landlord", "my future wife", "my ex girlfriend"])
def test_what_is_over_or_not_yet_is_not_current(text: str) -> None:
    read = phrase(text)
    assert read is not None and not read.is_current
    assert read.statements(["Mira"]) == []


@pytest.mark.parametrize(
    "text", ["my", "my table", "my sister's table", "my not so very good old boss", "Bo sister"]
)
def test_other_words_are_no_role(text: str) -> None:
    assert phrase(text) is None


def test_the_place_of_work_is_part_of_it() -> None:
    read = phrase("my editor at Fjord Labs")
    assert read is not None and read.place == "Fjord Labs"
    relations = [(one.relation, one.object) for one in read.statements(["Mira"])]
    assert relations == [("editor of", "Ana"), ("editor at", "Fjord Labs")]


def test_nobody_has_a_role_of_an_unknown_speaker() -> None:
    assert phrase("my sister", None) is None
