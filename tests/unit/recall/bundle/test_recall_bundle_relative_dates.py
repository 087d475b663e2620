from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.bundle.relative_dates import RelativeDates
from orion_recall.values import ToldTime

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC).timestamp()  # a Wednesday
DATES = RelativeDates(zone=UTC, now=datetime(2026, 11, 20, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I went there yesterday", "I went there yesterday [3 March]"),
        ("see you tomorrow at 5", "see you tomorrow [5 March] at 5"),
        ("we met last Friday", "we met last Friday [27 February]"),
        ("Next week, we move", "Next week [9-15 March], we move"),
        ("tonight we sing", "tonight [4 March] we sing"),
        ("The day before yesterday it snowed", "The day before yesterday [2 March] it snowed"),
        ("I came three days ago", "I came three days ago [1 March]"),
        ("it was fine last year", "it was fine last year [2025]"),
        ("last month was cold", "last month [February] was cold"),
        ("we start next month", "we start next month [April]"),
        ("this weekend!", "this weekend [7-8 March]!"),
        ("last winter", "last winter [December 2025 to February 2026]"),
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


def told(day: int, days: int = 1, *, hour: int = 0, weekly: bool = False) -> ToldTime:
    since = datetime(2026, 3, day, hour, tzinfo=UTC).timestamp()
    return ToldTime(since, since + (60 if hour else days * 86_400), weekly)


@pytest.mark.parametrize(
    ("text", "times", "shown"),
    [
        (
            "the dentist is on Tuesday at 14:00",
            [told(10, hour=14)],
            "the dentist is on Tuesday [10 March] at 14:00",
        ),
        ("on Tuesday I ran", [told(3)], "on Tuesday [3 March] I ran"),
        ("moved from Monday to Thursday", [told(5)], "moved from Monday to Thursday [5 March]"),
        ("I fly in two weeks", [told(15, 7)], "I fly in two weeks [15-21 March]"),
        ("in 3 days", [told(7), told(20)], "in 3 days [7 March]"),
        ("in a few days", [told(7)], "in a few days [7 March]"),
    ],
)
def test_a_weekday_is_the_one_that_the_told_times_have(text: str, times: list[ToldTime], shown: str):
    assert DATES.resolved(text, SAID, times) == shown


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("on Tuesday I ran", []),
        ("every Tuesday", [told(10)]),
        ("Tuesday", [told(10, weekly=True)]),
        ("Tuesday or the Tuesday after", [told(10), told(17)]),
        ("Tuesday, 10 March", [told(10)]),
        ("Tuesdays", [told(10)]),
        ("we swim on Tuesday mornings", [told(10, weekly=True)]),
        ("we swim on Tuesday mornings", []),
        ("I did it in two weeks", [told(5)]),
        ("in two weeks", []),
    ],
)
def test_no_date_is_guessed(text: str, times: list[ToldTime]):
    assert DATES.resolved(text, SAID, times) == text


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
