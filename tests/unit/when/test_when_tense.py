from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.time_values import TimeOf
from orion_recall.when.reading import coming_in
from orion_recall.when.times import times

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday


def first_day(text: str) -> str:
    start = times(text, NOW).intervals[0].start
    return "-" if start is None else f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("What are our plans for Christmas?", "2026-12-24"),
        ("What do I have on Tuesday?", "2026-06-23"),
        ("What have I got on Monday?", "2026-06-22"),
        ("Do I have an appointment on Monday?", "2026-06-22"),
        ("What's on this Saturday?", "2026-06-20"),
        ("What is coming up in March?", "2027-03-01"),
        ("Is anything planned for Sunday?", "2026-06-21"),
        ("Which deadlines are there in April?", "2027-04-01"),
        ("When is the concert in May?", "2027-05-01"),
        ("Does the plumber come on Thursday?", "2026-06-18"),
        ("Who do I meet on Monday?", "2026-06-22"),
        ("What did I do on Tuesday?", "2026-06-16"),
        ("What were our plans for Christmas?", "2025-12-24"),
        ("Who planned the party in May?", "2026-05-01"),
        ("Which plans have changed since May?", "2026-05-01"),
        ("Do we have notes from the trip in May?", "2026-05-01"),
        ("Recap Monday for me", "2026-06-15"),
    ],
)
def test_what_comes_again_is_the_next_one_where_the_question_looks_ahead(text: str, day: str):
    assert first_day(text) == day


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("What is on?", True),
        ("Is there anything on?", True),
        ("Who is on call for Otter?", False),
    ],
)
def test_things_that_are_on_are_to_come_and_people_are_on_call(text: str, ahead: bool):
    assert times(text, NOW).ahead is ahead


def test_by_a_day_to_come_is_from_today_up_to_it():
    (due,) = times("What do I have to hand in by Friday?", NOW).intervals
    assert (due.start, due.end) == (
        datetime(2026, 6, 17, tzinfo=UTC).timestamp(),
        datetime(2026, 6, 20, tzinfo=UTC).timestamp(),
    )
    (over,) = times("What did I hand in by Friday?", NOW).intervals
    assert (over.start, over.end) == (None, datetime(2026, 6, 13, tzinfo=UTC).timestamp())


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
    ("text", "year"),
    [
        ("What do the kids want for Christmas?", 2026),
        ("What did I say about Christmas?", 2025),
    ],
)
def test_what_is_for_a_holiday_or_a_season_is_for_the_next_one(text: str, year: int):
    (found,) = times(text, datetime(2026, 11, 23, 9, tzinfo=UTC)).intervals
    assert found.start is not None
    assert datetime.fromtimestamp(found.start, UTC).year == year


@pytest.mark.parametrize(
    "question",
    [
        "What is coming up?",
        "And what is ahead of me?",
        "Is there anything coming up?",
    ],
)
def test_whatever_is_still_to_come_is_asked_for_from_now_on(question: str) -> None:
    time = times(question, NOW)
    assert [(one.start, one.end) for one in time.intervals] == [(NOW.timestamp(), None)]
    assert time.of == "told"
    assert time.ahead


@pytest.mark.parametrize(
    "question",
    [
        "What is coming up in October?",
        "Who is coming up to the cabin?",
        "What is coming up the stairs?",
    ],
)
def test_a_question_for_something_else_as_well_is_none_for_all_that_comes(question: str) -> None:
    assert coming_in(question) is None


@pytest.mark.parametrize("question", ["Sum up April", "how did April go", "wrap up April for me", "recap of April"])
def test_a_month_is_asked_for_without_a_preposition(question: str) -> None:
    (april,) = times(question, NOW).intervals
    assert datetime.fromtimestamp(april.start or 0.0, UTC) == datetime(2026, 4, 1, tzinfo=UTC)


def test_what_was_got_since_is_over() -> None:
    assert not times("What stuff have I got myself since April?", NOW).ahead
    assert times("What have I got on Friday?", NOW).ahead
