from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.values import TimeOf
from orion_recall.when.reading import coming_in
from orion_recall.when.times import ordinal, session_named, times

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "ahead"),
    [("What is on?", True), ("Is there anything on?", True), ("Who is on call for Otter?", False)],
)
def test_things_that_are_on_are_to_come_and_people_are_on_call(text: str, ahead: bool):
    assert times(text, NOW).ahead is ahead


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("What did I say on Monday?", "said"),
        ("What have we talked about this week?", "said"),
        ("Recap Monday for me", "said"),
        ("Catch me up on last week", "said"),
        ("What is on tomorrow?", "told"),
        ("When is the concert in May?", "told"),
        ("What did Hana say about next week?", "told"),
        ("What did Hana say about yesterday?", "told"),
        ("What did we talk about yesterday?", "said"),
        ("What did Hana write about on Monday?", "said"),
        ("What did Hana write about the concert on Monday?", "both"),
        ("What happened on 14 May?", "both"),
        ("Tell me what happened yesterday", "both"),
    ],
)
def test_verb_and_tense_say_what_a_time_is_of(text: str, of: TimeOf):
    assert times(text, NOW).of == of


@pytest.mark.parametrize(
    "question", ["What is coming up?", "And what is ahead of me?", "Is there anything coming up?"]
)
def test_whatever_is_still_to_come_is_asked_for_from_now_on(question: str) -> None:
    time = times(question, NOW)
    assert [(one.start, one.end) for one in time.intervals] == [(NOW.timestamp(), None)]
    assert time.of == "told"
    assert time.ahead


@pytest.mark.parametrize(
    "question", ["What is coming up in October?", "Who is coming up to the cabin?", "What is coming up the stairs?"]
)
def test_a_question_for_something_else_as_well_is_none_for_all_that_comes(question: str) -> None:
    assert coming_in(question) is None


def test_what_was_got_since_is_over() -> None:
    assert not times("What stuff have I got myself since April?", NOW).ahead
    assert times("What have I got on Friday?", NOW).ahead


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("what did we say in our first session", 1, "first session"),
        ("what did you recommend the last time we talked", -1, "last time we talked"),
        ("in the 12th conversation", 12, "12th conversation"),
        ("session 4", 4, "session 4"),
        ("chat #3", 3, "chat #3"),
        ("the second to last session", -2, "second to last session"),
        ("the conversation before last", -2, "conversation before last"),
        ("the third time we met", 3, "third time we met"),
    ],
)
def test_a_session_is_named_by_its_place(text: str, place: int, words: str):
    assert session_named(text) == (place, words)
    found = times(text, NOW)
    assert (found.session, found.intervals) == (place, ())


@pytest.mark.parametrize(
    "text",
    ["what did Ana say", "a session of 40 minutes", "session 0", "session 4 minutes long", "the last chat show"],
)
def test_other_numbers_are_no_sessions(text: str):
    assert session_named(text) is None


@pytest.mark.parametrize(
    ("place", "words"), [(1, "first"), (-1, "last"), (-2, "second to last"), (2, "2nd"), (13, "13th"), (23, "23rd")]
)
def test_the_place_is_told_in_words(place: int, words: str):
    assert ordinal(place) == words
