from __future__ import annotations

import pytest

from orion_recall.models.language import language_of
from orion_recall.recall.understand.answer_types import answer_type, gives_name, gives_number
from orion_recall.text.normal import words
from orion_recall.values import ANY_TYPE, AnswerType

SPEAKERS = frozenset({"ana", "bo"})


def asked(text: str) -> AnswerType:
    return answer_type(text, words(text), language=language_of(words(text)), known=SPEAKERS)


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [
        ("Who repaired the crane?", True, False),
        ("Where does Ana's sister live?", True, False),
        ("Which harbour is the oldest?", True, False),
        ("What is the name of Bo's dog?", True, False),
        ("What book did Ana finish?", True, False),
        ("What kind of dog breeds does Bo like?", True, False),
        ("In what city was the conference?", True, False),
        ("How many cranes are there?", False, True),
        ("How long did it take?", False, True),
        ("How many songs did the band play, and where?", True, True),
        ("What does Ana think of the crane?", False, False),
        ("Why did Bo leave?", False, False),
        ("When did Bo leave?", False, False),
        ("Somewhere there is a whole crane", False, False),
        ("Wer hat den Kran repariert, und wo ist er?", False, False),
        ("", False, False),
    ],
)
def test_small_words_tell_what_a_question_asks_for(text: str, name: bool, number: bool):
    found = asked(text)
    assert (found.name, found.number) == (name, number)
    assert (found == ANY_TYPE) is (not name and not number)


@pytest.mark.parametrize(
    "text",
    [
        "She lives in Bergen now.",
        "My dog is called Biscuit!",
        'I finished "Middlemarch" yesterday.',
        "Yes, Fjord Labs did it.",
        "it was (Mira) who called",
        "Bo's cousin, O'Neill, came.",
        "We met Zoë-Ann there.",
    ],
)
def test_a_name_inside_a_sentence_that_nobody_mentioned_is_one(text: str):
    assert gives_name(text, asked("Who is Ana with?").known)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bergen",
        "It rained. The crane broke. Bergen is far.",
        "well, I'm sure that I’ll go",
        "It was Ana's, and Bo knows.",
        "and Ana, Bo?",
        "it rained in bergen",
        "oh, OK, Wow, Thanks",
        "grade A work",
    ],
)
def test_what_begins_a_sentence_is_known_or_is_small_is_no_new_name(text: str):
    assert not gives_name(text, asked("Who is Ana with?").known)


def test_the_questions_own_names_do_not_answer_it():
    known = asked("Who lives in Bergen?").known
    assert not gives_name("she moved to Bergen", known)
    assert gives_name("she moved to Bergen with Mira", known)


@pytest.mark.parametrize("text", ["3 cranes", "on 4/5", "It took two days", "Dozens of them", "ONCE", "the 2nd"])
def test_figures_and_number_words_are_numbers(text: str):
    assert gives_number(text)


@pytest.mark.parametrize(
    "text", ["", "cranes", "anyone", "the lonely tenor", "someone often forgets", "How many are there?"]
)
def test_other_words_are_none(text: str):
    assert not gives_number(text)
