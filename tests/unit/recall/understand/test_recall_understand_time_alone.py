from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.recall.understand.time_alone import is_alone, without_times
from orion_recall.when.times import times
from tests.samples.recall_fakes import profile, query

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday
SPEAKERS = frozenset({"Hana", "Otto Brandt", "Rosa"})


def asked(text: str, **fields: object) -> Understanding:
    return understand(query(text, **fields), profile(), now=NOW.timestamp(), speakers=SPEAKERS)


@pytest.mark.parametrize(
    "text",
    [
        "What happened yesterday?",
        "What happened this morning?",
        "What did we talk about on May 16th?",
        "What did we discuss 33 days ago?",
        "Recap Monday for me",
        "Give me a summary of last week",
        "Please summarise July 2025",
        "Can you give me a quick overview of the last three days?",
        "What's happened since Friday?",
        "What did I do last weekend?",
        "What was going on last Thursday?",
        "What has come up today?",
        "What have I been up to this week?",
        "Catch me up on the past week",
        "Any news from this morning?",
        "How was my weekend?",
        "How did last week go?",
        "How was my week?",
        "What was I working on yesterday?",
        "What kept me busy in July?",
        "What was on my mind last week?",
        "What did people say yesterday?",
        "Who wrote to me yesterday?",
        "What's new?",
        "Catch me up, please",
        "What have I been up to lately?",
        "Tell me about yesterday",
        "What did Hana say yesterday?",
        "What did Otto do last weekend?",
        "What did we talk about in our second session?",
        "What was the last conversation about?",
        "yesterday?",
        "What changed last week?",
        "Have there been any changes since Friday?",
        "How have things changed this month?",
        "Was anything different yesterday?",
    ],
)
def test_a_time_alone_asks_for_a_recap(text: str):
    understood = asked(text)
    assert (understood.question.time.alone, understood.shape) == (True, "recap")


@pytest.mark.parametrize(
    "text",
    [
        "What happened to the boat yesterday?",
        "What did I eat yesterday?",
        "How was my week in Rome?",
        "What's new at the harbour?",
        "Where was I last Thursday?",
        "Who called this morning?",
        "Why did we talk yesterday?",
        "When did we talk last week?",
        "How many messages were there yesterday?",
        "What did Lena do last weekend?",  # nobody who speaks here: she is what is looked for
        "What happened?",
        "What changed in the choir last week?",
        "Who changed the lock last week?",
        "What was said about the roof in our second session?",
    ],
)
def test_what_asks_for_more_than_a_time_is_no_recap(text: str):
    understood = asked(text)
    assert not understood.question.time.alone
    assert understood.shape != "recap"


@pytest.mark.parametrize(
    "text",
    [
        "What do I have on tomorrow?",
        "What's on this Friday?",
        "What have I got next week?",
        "What is coming up in October?",
        "What does my week look like?",
        "What am I supposed to do on Friday?",
        "Do I have time on Friday evening?",
        "What must I not forget this week?",
        "Do I have anything planned for Sunday?",
        "Which appointments do I have on Friday?",
    ],
)
def test_what_is_ahead_is_no_recap_though_it_names_a_time_alone(text: str):
    understood = asked(text)
    assert understood.question.time.of == "told"
    assert understood.shape != "recap"
    assert understood.question.time.alone is not text.startswith("Which")


def test_an_intent_that_asks_for_something_is_a_subject():
    assert asked("What happened yesterday?", intent="summary of the day").shape == "recap"
    assert asked("What happened yesterday?", intent="the repair of the boat").shape is None


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("What did we say about the boat yesterday?", "What did we say about the boat?"),
        ("What did we buy in the last two weeks?", "What did we buy?"),
        ("Which boats came since Monday, and whose?", "Which boats came, and whose?"),
        ("What did we cook at Christmas?", "What did we cook christmas?"),
        ("What did we plant in our second session?", "What did we plant in our?"),
        ("What did we plant?", "What did we plant?"),
    ],
)
def test_the_words_of_a_time_are_not_searched_for(text: str, searched: str):
    assert without_times(text, times(text, NOW)) == searched


def test_months_and_years_are_searched_for_beside_other_words():
    """A memory is indexed with its date in words."""
    question = asked("What did we plant in May 2025, and what last week?").question
    assert question.dense_text == "What did we plant in May 2025, and what?"
    assert "week" not in question.terms
    alone = asked("What did we talk about in May 2025?").question
    assert alone.dense_text == "What did we talk about?"


def test_a_time_that_may_be_that_of_the_subject_is_searched_for():
    question = asked("What did Hana write about the concert on Monday?").question
    assert "monday" in question.terms
    assert question.time.of == "both"


def test_a_question_of_nothing_but_its_time_is_searched_for_as_it_is():
    assert asked("yesterday?").question.dense_text == "yesterday?"


def test_without_a_time_nothing_is_alone():
    assert not is_alone("What happened?", times("What happened?", NOW))


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("Sum up yesterday in the workshop", True),
        ("What happened at work on Monday?", True),
        ("What happened in the kitchen garden on Monday?", False),
        ("What did I mend in the shop yesterday?", False),
        ("What's in the diary for next week?", True),
    ],
)
def test_where_the_days_are_spent_is_no_subject(text: str, alone: bool):
    time = times(text, NOW)
    assert is_alone(without_times(text, time), time) is alone
