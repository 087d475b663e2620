from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.bundle.relative_dates import RelativeDates

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
