from __future__ import annotations

import pytest

from orion_recall.models.language import language_of
from orion_recall.recall.understand.answer_types import answer_type
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
        ("On which days does Bo come?", False, False),
        ("Which code opens the door?", False, True),
        ("Which evening is the drawing class?", False, False),
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
        ("What do I charge for a pair of oars?", False, True),
        ("What does Fraser take for spruce now?", False, True),
        ("What's the rent of the shed?", False, True),
        ("What do the boys get for Christmas?", False, False),
        ("What will Bo take to the party?", False, False),
    ],
)
def test_small_words_tell_what_a_question_asks_for(text: str, name: bool, number: bool):
    found = asked(text)
    assert (found.name, found.number) == (name, number)
    assert (found == ANY_TYPE) is (not name and not number)


@pytest.mark.parametrize(
    ("text", "place", "home"),
    [
        ("Where does Bo live these days?", True, True),
        ("What is Bo's address?", False, True),
        ("Where is the crane?", True, False),
        ("Who lives where the crane is?", False, False),
    ],
)
def test_a_question_may_ask_for_a_place_or_a_home(text: str, place: bool, home: bool):
    found = asked(text)
    assert (found.place, found.home) == (place, home)
    assert found.name


def test_to_address_something_asks_for_no_home():
    assert not asked("What troubles does Bo have, and how does he address them?").home
