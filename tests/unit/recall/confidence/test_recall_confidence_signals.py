from __future__ import annotations

import pytest

from orion_recall.recall.confidence.signals import (
    LATE_SIGNALS,
    SIGNALS,
    asked_about,
    nearest_items,
    signals,
    speaks_otherwise,
)
from orion_recall.recall.pass_result import PassResult
from tests.samples.found import asked, found

TEXTS = {
    "Oskar Lindt repairs the ferry on Tuesdays": (0.7, 0.5, 9.0),
    "Tamsin turned forty in the harbour bar": (0.4, 0.3, 4.0),
    "The rudder cost 90 euros, said Tamsin": (0.3, 0.2, 2.0),
    "What a wind today": (0.2, 0.1, 0.0),
}


def told(question: str, among: PassResult | None = None) -> dict[str, float]:
    understood = asked(question, "Tamsin")
    result = among or found(TEXTS)
    return dict(signals(understood, asked_about(understood), result, nearest_items(result)))


@pytest.mark.parametrize(
    ("question", "words", "names", "possessed"),
    [
        (
            "When did Oskar Lindt repair the ferry?",
            ("oskar", "lindt", "repair", "ferry"),
            (("oskar", "lindt"),),
            (),
        ),
        ("What is Tamsin's shoe size?", ("tamsin", "shoe", "size"), (("tamsin",),), ("shoe", "size")),
        ("What did Tamsin say about the rudder yesterday?", ("tamsin", "rudder"), (("tamsin",),), ()),
        ("Gateaux for the party?", ("gateaux", "party"), (), ()),
        ("Where is my ID?", ("id",), (), ()),
        ("What day is Tamsin's birthday on?", ("tamsin", "birthday"), (("tamsin",),), ("birthday",)),
        ("tell me which month the rudder came", ("rudder",), (), ()),
    ],
)
def test_what_a_question_asks_about(
    question: str, words: tuple[str, ...], names: tuple[tuple[str, ...], ...], possessed: tuple[str, ...]
):
    about = asked_about(asked(question, "Tamsin"))
    assert (about.words, about.names, about.possessed) == (words, names, possessed)


@pytest.mark.parametrize(
    "question",
    [
        "What happened yesterday?",
        "What's happening on Friday?",
        "What have I been up to lately?",
        "What did I do in May?",
        "Give me a summary of last week",
        "What are our plans for Saturday?",
        "What did Tamsin say yesterday?",
        "What is due?",
        "...",
    ],
)
def test_a_question_for_whatever_there_is_of_a_time_lacks_no_word(question: str):
    assert asked_about(asked(question, "Tamsin")).is_open


def test_a_long_text_lacks_no_word():
    words = "anchor buoy canvas deck engine flag galley harbour island jetty keel lantern mast"
    assert asked_about(asked(words)).is_open
    assert not asked_about(asked(words.removesuffix(" mast"))).is_open


@pytest.mark.parametrize(
    "question", ["Who is Oskar?", "What did Tamsin say about the rudder?", "Where is the anchor?"]
)
def test_a_question_for_something_can_lack_a_word(question: str):
    assert not asked_about(asked(question, "Tamsin")).is_open


def test_every_signal_is_told_once_and_is_about_0_to_1():
    made = told("How much did the rudder cost?")
    assert tuple(made) == SIGNALS
    assert all(0 <= value <= 1 for value in made.values())
    assert set(SIGNALS) - set(told("How much?", found(TEXTS, late=False))) == LATE_SIGNALS


def test_words_are_found_in_other_forms_and_by_words_that_tell_the_same():
    assert told("Who mends the ferries?")["found_anywhere"] < 1
    assert told("Who is repairing the ferry?")["found_anywhere"] == 1
    assert told("When is Tamsin's birthday?")["found_possessed"] == 1, "she turned forty"
    assert told("What was the price of the rudder?")["found_with_name"] == 1


def test_a_word_that_nothing_has_is_not_found():
    assert told("Where is the accordion?")["found_anywhere"] == 0
    assert 0 < told("Where is the accordion of the ferry?")["found_anywhere"] < 1
    assert told("Is there a car?")["found_anywhere"] == 0, "a harbour is none"


def test_a_name_that_nobody_mentioned_is_not_found():
    assert told("Where does Gunnar live?")["found_names"] == 0
    assert told("Did Oskar meet Gunnar?")["found_names"] == 0.5
    assert told("Where does Oskar live?")["found_names"] == 1
    assert told("Where is it?")["found_names"] == 1


def test_a_relative_or_an_animal_that_nobody_mentioned_is_not_found():
    assert told("Where does my sister live?")["found_names"] == 0
    assert told("Which food is best for our old cat?")["found_names"] == 0
    assert told("Where does a sister live?")["found_names"] == 1, "nobody's in particular"
    mother = found({"Maman has a new flat": (0.5, 0.5, 5.0)})
    assert told("Where does my mother live?", mother)["found_names"] == 1
    dog = found({"the puppy has eaten my slipper": (0.5, 0.5, 5.0)})
    assert told("What did my dog eat?", dog)["found_names"] == 1


def test_what_is_asked_of_a_name_must_stand_with_the_name():
    assert told("What is Oskar's rudder made of?")["found_possessed"] == 0, "that is in a memory of Tamsin"
    assert told("What did Tamsin's rudder cost?")["found_possessed"] == 1
    assert (
        told("Does Oskar like the bar?")["found_with_name"] < told("Does Tamsin like the bar?")["found_with_name"]
    )
    by_oskar = found({"I repaired the bar": (0.5, 0.5, 5.0)}, speaker="Oskar")
    assert told("Who says Oskar repaired the bar?", by_oskar)["found_with_name"] == 1


def test_an_answer_of_another_kind_is_noticed():
    assert told("How many eggs did we buy?", found({"eggs are dear": (0.5, 0.5, 5.0)}))["answer_type"] == 0
    assert told("How many eggs did we buy?", found({"we bought 6 eggs": (0.5, 0.5, 5.0)}))["answer_type"] == 1
    assert told("When did we buy eggs?", found({"we bought 6 eggs": (0.5, 0.5, 5.0)}))["answer_type"] == 0


def test_closeness_margin_and_agreement():
    made = told("Who repairs the ferry?")
    assert (made["late"], made["cosine"]) == (0.7, 0.5)
    assert made["late_margin"] == pytest.approx(0.4)
    assert made["agreement"] == 1
    torn = found({"one": (0.7, 0.1, 0.1), "two": (0.1, 0.7, 0.2), "three": (0.2, 0.2, 7.0)})
    assert told("Who repairs the ferry?", torn)["agreement"] == 0


def test_the_order_of_the_items_makes_no_difference():
    turned = found(dict(reversed(TEXTS.items())))
    assert told("Who repairs the ferry of Tamsin?", turned) == told("Who repairs the ferry of Tamsin?")


def test_the_first_person_is_noticed():
    assert told("Where is my anchor?")["first_person"] == 1
    assert told("Where is the anchor?")["first_person"] == 0


def test_a_relation_is_told_from_the_other_side_too():
    among = found({"Tamsin Roe, Greta's daughter, helps on Saturdays": (0.6, 0.5, 5.0)})
    assert told("Who is Tamsin's mother?", among)["found_possessed"] == 1.0
    assert told("Who is Tamsin's boss?", among)["found_possessed"] == 0.0


@pytest.mark.parametrize(
    ("question", "otherwise"),
    [
        ("When is the ferry repaired?", True),  # it may be about the ferry: none of its words can be found in it
        ("When is Tamsin's appointment?", True),
        ("When does Oskar get married?", False),  # his name would be the same there
    ],
)
def test_a_memory_in_another_language_may_answer_unless_it_lacks_the_name(question: str, otherwise: bool):
    dutch = "Tamsin heeft een nieuwe bril nodig, ze moet op woensdag naar de opticien"
    among = found({dutch: (0.9, 0.5, 1.0), **TEXTS})
    understood = asked(question, "Tamsin")
    assert speaks_otherwise(understood, asked_about(understood), nearest_items(among)[0]) is otherwise


def test_a_phone_number_answers_who_asks_for_one_without_the_word():
    known = found(
        {"Tamsin is our person for the floor. 0113 496 0188": (0.4, 0.3, 4.0), "What a wind": (0.2, 0.1, 0.0)}
    )
    other = found(
        {"Tamsin is our person for the floor.": (0.4, 0.3, 4.0), "0113 496 0188 is Oskar": (0.2, 0.1, 0.0)}
    )
    assert told("What is Tamsin's number?", known)["found_with_name"] == 1.0
    assert told("What is Tamsin's number?", other)["found_with_name"] == 0.0
