from __future__ import annotations

import pytest

from orion_recall.recall.understand.people import asking_speaker, is_first_person, named_speakers
from orion_recall.text.normal import words

SPEAKERS = frozenset(["Iris Lund", "Bram", "Assistant"])


@pytest.mark.parametrize(
    ("user", "speakers", "callers", "asker"),
    [
        ("Iris Lund", ["Iris Lund", "Bram"], (), "Iris Lund"),
        ("iris_lund", ["Iris Lund", "Bram"], (), "Iris Lund"),
        ("iris", ["Iris Lund", "Bram"], (), "Iris Lund"),
        ("Bram Visser", ["Iris Lund", "Bram"], (), "Bram"),
        ("Iris Falk", ["Iris Lund", "Bram"], (), None),
        ("Iris", ["Iris Lund", "Iris Falk"], (), None),
        ("u-17", ["Iris Lund", "Bram"], ("u-17=Iris Lund",), "Iris Lund"),
        ("u-17", ["Iris Lund", "Assistant"], ("u-17=Nobody",), None),
        ("u-17", ["Iris Lund", "Bram"], (), None),
        ("u-17", ["Iris Lund", "Assistant"], (), "Iris Lund"),
        (None, ["user", "assistant"], (), "user"),
        (None, ["Iris Lund", "Bram", "Assistant"], (), None),
        (None, [], (), None),
    ],
)  # fmt: skip
def test_who_asks(user: str | None, speakers: list[str], callers: tuple[str, ...], asker: str | None):
    assert asking_speaker(user, frozenset(speakers), callers) == asker


def test_questions_in_the_first_person():
    assert is_first_person(words("Where is my bike?"))
    assert is_first_person(words("What’s up? I’m late"))
    assert not is_first_person(words("Where is our bike?"))
    assert not is_first_person(words("Where is Mya's bike?"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does Bram Visser like?", ["Bram Visser"]),
        ("What does Bram like?", ["Bram Okafor", "Bram Visser"]),
        ("Who is Bram Tak?", []),
        ("Who is Bram, Hana's brother?", ["Bram Okafor", "Bram Visser"]),
        ("What does bram like?", ["Bram Okafor", "Bram Visser"]),
        ("Am I going to that course in Bram?", []),
        ("What do I see in Bram?", ["Bram Okafor", "Bram Visser"]),
    ],
)  # fmt: skip
def test_a_full_name_is_one_person_and_a_first_name_all_who_bear_it(text: str, named: list[str]):
    speakers = frozenset(["Bram Visser", "Bram Okafor", "Iris"])
    assert sorted(named_speakers(text, words(text), speakers)) == named


def test_a_speaker_known_by_the_first_name_alone_may_have_any_last_name():
    text = "Who is Bram Tak?"
    assert list(named_speakers(text, words(text), frozenset(["Bram"]))) == ["Bram"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Wanda say about the goats?", ["Dr. Wanda Osei"]),
        ("What did Dr. Osei say?", ["Dr. Wanda Osei"]),
        ("What did doctor Osei say?", ["Dr. Wanda Osei"]),
        ("What did Mrs. Tran say?", ["Mrs Tran"]),
        ("What did Mr Tran say?", ["Mr Tran"]),
        ("What did Tran say?", ["Mr Tran", "Mrs Tran"]),
        ("What did Mrs Osei say?", []),
        ("What did the doctor say?", []),
    ],
)
def test_a_speaker_with_a_title_is_called_without_it_or_by_it_and_the_last_name(text: str, named: list[str]):
    speakers = frozenset(["Dr. Wanda Osei", "Dr. Emil Brandt", "Mr Tran", "Mrs Tran", "Iris"])
    assert sorted(named_speakers(text, words(text), speakers)) == named
