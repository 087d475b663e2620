from __future__ import annotations

import pytest

from orion_recall.text.answers import gives_name, gives_number, tells_time

KNOWN = frozenset({"who", "is", "ana", "with", "bo"})


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
    assert gives_name(text, KNOWN)


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
    assert not gives_name(text, KNOWN)


def test_the_questions_own_names_do_not_answer_it():
    known = frozenset({"who", "lives", "in", "bergen"})
    assert not gives_name("she moved to Bergen", known)
    assert gives_name("she moved to Bergen with Mira", known)


@pytest.mark.parametrize(
    "text",
    [
        "the boat sails on Thursday",
        "the Saturdays are free, and so is Sunday's slot",
        "the ice was gone in February",
        "it opens in May, and closes on 3 August",
        "we leave by June 4",
        "she was ill from last April on",
    ],
)
def test_months_and_weekdays_are_nobodys_names(text: str):
    assert not gives_name(text, KNOWN)


@pytest.mark.parametrize("text", ["we had lunch with April", "then May called", "he is called August"])
def test_whoever_is_called_like_a_month_has_a_name(text: str):
    assert gives_name(text, KNOWN)


@pytest.mark.parametrize("text", ["3 cranes", "on 4/5", "It took two days", "Dozens of them", "ONCE", "the 2nd"])
def test_figures_and_number_words_are_numbers(text: str):
    assert gives_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cranes",
        "anyone",
        "the lonely tenor",
        "someone often forgets",
        "How many are there?",
        "I'd see it once more.",
        "one day",
    ],
)
def test_other_words_are_none(text: str):
    assert not gives_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "I went yesterday.",
        "We met LAST WEEK, at noon",
        "two years ago",
        "On Friday we sail",
        "it was in May",
        "since 1998",
        "The past few months were hard",
        "it is March 24th now",
        "the exam is May 12, at noon",
        "bumped to the 3rd of May",
        "moved to 9 March",
        "the 21st March suits us",
        "by March it is done",
    ],
)
def test_a_text_with_words_for_a_time_tells_one(text: str):
    assert tells_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "May I come?",
        "we march on",
        "the other 5 may not fit",
        "a friend of May",
        "the last crane",
        "a good day",
        "number 20",
        "",
        "Chicago",
        "2500 euros",
    ],
)
def test_a_text_without_does_not(text: str):
    assert not tells_time(text)
