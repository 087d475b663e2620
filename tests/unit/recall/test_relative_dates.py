"""Relative times: their dates in lines, and questions of a time alone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.bundle.relative_dates import RelativeDates
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.recall.understand.shape import is_alone, without_times
from orion_recall.when.times import times
from tests.samples.recall_fakes import profile, query

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC).timestamp()  # a Wednesday


DATES = RelativeDates(zone=UTC, now=datetime(2026, 11, 20, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I went there yesterday", "I went there yesterday [3 March]"),
        ("see you tomorrow at 5", "see you tomorrow [5 March] at 5"),
        ("we met last Friday", "we met last Friday [27 February]"),
        ("we met last Wednesday", "we met last Wednesday [25 February]"),
        ("Next week, we move", "Next week [9-15 March], we move"),
        ("tonight we sing", "tonight [4 March] we sing"),
        ("The day before yesterday it snowed", "The day before yesterday [2 March] it snowed"),
        ("I came three days ago", "I came three days ago [1 March]"),
        ("it was fine last year", "it was fine last year [2025]"),
        ("last month was cold", "last month [February] was cold"),
        ("we start next month", "we start next month [April]"),
        ("this weekend!", "this weekend [7-8 March]!"),
        ("since last Friday", "since last Friday [27 February]"),
        ("İzmir was warm YESTERDAY", "İzmir was warm YESTERDAY [3 March]"),
    ],
)
def test_a_relative_time_is_followed_by_its_date(text: str, shown: str):
    assert DATES.resolved(text, SAID) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "on 30 November at 14:15",
        "every Friday",
        "in May",
        "an hour ago",
        "tomorrow's list",
        "today",
        "the last one",
    ],
)
def test_other_times_stay_as_they_are(text: str):
    assert DATES.resolved(text, SAID) == text


@pytest.mark.parametrize(
    "text",
    ["on Tuesday I ran", "every Tuesday", "we agreed on Friday", "closed on Monday", "I fly in two weeks"],
)
def test_no_date_is_guessed(text: str):
    assert DATES.resolved(text, SAID) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two weeks ago it froze", "two weeks ago [about 18 February] it froze"),
        ("six months ago she couldn't swim", "six months ago [about September 2025] she couldn't swim"),
        ("three years ago", "three years ago [about 2023]"),
        ("we were here a couple of weeks ago", "we were here a couple of weeks ago [about 18 February]"),
    ],
)
def test_what_is_counted_loosely_is_dated_loosely(text: str, shown: str):
    assert DATES.resolved(text, SAID) == shown


@pytest.mark.parametrize(
    "text",
    [
        "in two weeks I read forty pages",
        "we meet twice in a week",
        "I'll never learn it in a month",
        "I haven't slept in three weeks",
        "he said he'd be back in three days",
        "a few days ago",
        "two weeks ago on Saturday",
        "a week ago tomorrow",
        "a couple of days ago",
        "next Friday",
        "last Monday",
        "this Monday",
        "next weekend",
        "the last week of term",
        "in the last month",
        "every last Friday",
        "last Friday in May",
        "next summer",
        'on Monday she told me "I leave tomorrow" and went',
        "Nina wrote: see you tomorrow!",
        "the film The Day After Tomorrow is on",
        "tomorrow never comes with that builder",
    ],
)
def test_a_time_with_more_than_one_meaning_has_no_date(text: str):
    assert DATES.resolved(text, SAID) == text


@pytest.mark.parametrize(
    ("day", "text", "shown"),
    [
        (6, "next Tuesday", "next Tuesday [10 March]"),
        (2, "last Tuesday", "last Tuesday [24 February]"),
        (7, "next weekend", "next weekend [14-15 March]"),
        (2, "last weekend was wet", "last weekend [28 February to 1 March] was wet"),
        (2, "this weekend", "this weekend"),
        (4, "this Friday", "this Friday [6 March]"),
        (6, "this Wednesday", "this Wednesday"),
    ],
)
def test_the_day_on_which_it_is_said_decides_whether_it_has_one_meaning(day: int, text: str, shown: str):
    assert DATES.resolved(text, datetime(2026, 3, day, 10, tzinfo=UTC).timestamp()) == shown


@pytest.mark.parametrize("text", ["see you tomorrow", "last night", "tonight"])
def test_in_the_small_hours_tomorrow_may_have_begun(text: str):
    assert DATES.resolved(text, datetime(2026, 3, 4, 1, tzinfo=UTC).timestamp()) == text


def test_each_expression_is_dated_once():
    assert DATES.resolved("yesterday, yes, yesterday", SAID) == "yesterday [3 March], yes, yesterday"


def test_the_year_is_told_where_it_is_not_the_askers():
    later = RelativeDates(zone=UTC, now=datetime(2027, 1, 2, tzinfo=UTC).timestamp())
    assert later.resolved("yesterday", SAID) == "yesterday [3 March 2026]"


def test_days_are_those_of_the_askers_zone():
    late = datetime(2026, 3, 4, 23, 30, tzinfo=UTC).timestamp()
    east = RelativeDates(zone=ZoneInfo("Asia/Tokyo"), now=DATES.now)
    assert (DATES.resolved("yesterday", late), east.resolved("yesterday", late)) == (
        "yesterday [3 March]",
        "yesterday [4 March]",
    )


@pytest.mark.parametrize("said", [None, float("nan"), float("inf"), 1e18])
def test_a_memory_without_a_usable_time_is_left_as_it_is(said: float | None):
    assert DATES.resolved("yesterday", said) == "yesterday"


@given(st.lists(st.sampled_from(["yesterday", "next week", "last", "two days ago", "x", "[", "\n"])).map(" ".join))
def test_nothing_of_the_text_is_lost(text: str):
    shown = DATES.resolved(text, SAID)
    for date in ("[3 March]", "[9-15 March]", "[2 March]"):
        shown = shown.replace(f" {date}", "", 1)
    assert shown == text


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
