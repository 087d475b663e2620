from __future__ import annotations

import pytest

from orion_recall.scoring.intervals import overlap, overlaps, proximity, widened
from orion_recall.values import Interval

DAY = 86_400.0
WEEK = Interval(start=10 * DAY, end=17 * DAY, kind="relative", words="last week")
SINCE = Interval(start=10 * DAY, end=None, kind="open", words="since then")
BEFORE = Interval(start=None, end=10 * DAY, kind="open", words="before that")


@pytest.mark.parametrize(
    ("start", "until", "share"),
    [
        (10 * DAY, None, 1.0),
        (17 * DAY - 1, None, 1.0),
        (17 * DAY, None, 0.9),
        (18 * DAY - 1, None, 0.9),
        (18 * DAY, None, 0.0),
        (9 * DAY, None, 0.9),
        (9 * DAY - 1, None, 0.0),
        (5 * DAY, 12 * DAY, 1.0),
        (5 * DAY, 30 * DAY, 1.0),
        (5 * DAY, 9.5 * DAY, 0.9),
        (12 * DAY, 5 * DAY, 1.0),
    ],
)
def test_inside_counts_whole_and_a_day_beside_it_nearly(start: float, until: float | None, share: float):
    assert overlap([WEEK], start, until) == share


def test_an_undated_memory_is_of_no_time():
    assert overlap([WEEK], None) is None


def test_an_open_interval_has_one_end():
    assert [overlap([SINCE], day * DAY) for day in (8, 9, 10, 1000)] == [0.0, 0.9, 1.0, 1.0]
    assert [overlap([BEFORE], day * DAY) for day in (-1000, 9, 10, 11)] == [1.0, 1.0, 0.9, 0.0]


def test_of_several_intervals_each_will_do():
    assert overlap([WEEK, BEFORE], 3 * DAY) == overlap([BEFORE, WEEK], 3 * DAY) == 1.0


def test_a_day_that_is_named_exactly_is_that_day_alone_where_something_is_of_it():
    day = Interval(10 * DAY, 11 * DAY, "date", "on the tenth", exact=True)
    beside, on_it, far = (11.5 * DAY, None), (10.5 * DAY, None), (20 * DAY, None)
    assert overlaps([day], [beside, on_it, far]) == [0.0, 1.0, 0.0]
    assert overlaps([day], [beside, far]) == [0.9, 0.0]
    assert overlaps([day._replace(exact=False)], [beside, on_it, far]) == [0.9, 1.0, 0.0]
    assert overlaps([day], [(None, None), on_it]) == [None, 1.0]


def test_a_wider_interval_has_a_day_more_on_both_sides_and_is_exact_no_more():
    wide = widened(Interval(10 * DAY, 11 * DAY, "date", "on the tenth", exact=True))
    assert (wide.start, wide.end, wide.exact) == (9 * DAY, 12 * DAY, False)
    assert widened(SINCE).end is None


def test_proximity_is_one_inside_and_halves_with_each_length_of_the_interval() -> None:
    week = (Interval(start=100 * DAY, end=107 * DAY, kind="relative", words="that week"),)
    assert proximity(week, 103 * DAY) == 1.0
    assert proximity(week, 99 * DAY, 101 * DAY) == 1.0
    assert proximity(week, 93 * DAY) == pytest.approx(0.5)
    assert proximity(week, 121 * DAY) == pytest.approx(0.25)
    assert proximity(week, None) is None


def test_an_interval_without_an_end_is_thirty_days_to_proximity() -> None:
    since = (Interval(start=100 * DAY, end=None, kind="open", words="since then"),)
    assert proximity(since, 500 * DAY) == 1.0
    assert proximity(since, 70 * DAY) == pytest.approx(0.5)
