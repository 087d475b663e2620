from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.memory.extraction.times import MAX_TIMES, find_times
from tests.samples.timing import grows_linearly

# A Wednesday.
AT = datetime(2024, 2, 28, 23, 30, tzinfo=UTC).timestamp()


def named(text: str, at: float | None = AT) -> list[tuple[str, str]]:
    return [
        tuple(f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}" for seconds in (one.since, one.until))
        for one in find_times(text, at)
    ]  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("on 2023-05-12.", "2023-05-12", "2023-05-13"),
        ("(2023-12)", "2023-12-01", "2024-01-01"),
        ("on 12 May 2023", "2023-05-12", "2023-05-13"),
        ("the 1st of Jan. 2023", "2023-01-01", "2023-01-02"),
        ("December 31st, 2023", "2023-12-31", "2024-01-01"),
        ("Sept 2023", "2023-09-01", "2023-10-01"),
        ("may 2023", "2023-05-01", "2023-06-01"),
        ("in 1999,", "1999-01-01", "2000-01-01"),
        ("Yesterday", "2024-02-27", "2024-02-28"),
        ("today", "2024-02-28", "2024-02-29"),
        ("tonight", "2024-02-28", "2024-02-29"),
        ("tomorrow", "2024-02-29", "2024-03-01"),
        ("last week", "2024-02-19", "2024-02-26"),
        ("this week", "2024-02-26", "2024-03-04"),
        ("next month", "2024-03-01", "2024-04-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("last Wednesday", "2024-02-21", "2024-02-22"),
        ("last tuesday", "2024-02-27", "2024-02-28"),
        ("last Thursday", "2024-02-22", "2024-02-23"),
        ("next Wednesday", "2024-03-06", "2024-03-07"),
        ("next Thursday", "2024-03-07", "2024-03-08"),
        ("this Friday", "2024-02-23", "2024-02-24"),
        ("a week ago", "2024-02-18", "2024-02-25"),
        ("3 days ago", "2024-02-25", "2024-02-26"),
        ("two months ago", "2023-12-13", "2024-01-13"),
        ("14 months ago", "2022-12-13", "2023-01-13"),
        ("ten years ago", "2014-01-01", "2015-01-01"),
    ],
)
def test_a_time_is_a_half_open_interval(text: str, since: str, until: str) -> None:
    assert named(f"We met {text}") == [(since, until)]


@pytest.mark.parametrize(
    "text",
    [
        "2023-13-01", "2023-05-12-99", "room 2023", "2023 people came", "in 20235",
        "call 555-2023-05", "happy birthday", "every day", "days ago", "zero days ago",
        "ISBN 2023-05-1234", "everyday", "a mayday 2023", "for 2000 euros", "3.11.2",
    ],
)  # fmt: skip
def test_what_is_no_time_or_not_clear_is_left_out(text: str) -> None:
    assert named(text) == []


def test_without_its_own_time_a_memory_names_absolute_times_only() -> None:
    assert named("yesterday, on 12 May 2023, and last week", None) == [("2023-05-12", "2023-05-13")]


def test_times_come_in_order_once_and_not_without_end() -> None:
    assert [one.text for one in find_times("in 2001, today, in  2001, May 2002", AT)] == [
        "2001",
        "today",
        "May 2002",
    ]
    assert len(find_times(" ".join(f"in {year}" for year in range(1900, 2000)), AT)) == MAX_TIMES


@pytest.mark.parametrize("at", [-62135596800.0, 253402300799.0])
def test_the_ends_of_the_calendar_are_no_error(at: float) -> None:
    for text in ("yesterday", "tomorrow", "99 years ago", "next year", "last month", "next week", "this year"):
        assert all(one.since < one.until for one in find_times(text, at))


@given(st.lists(st.sampled_from("in 2023 -05 -12 May 12 last next this week monday a two ago years , .".split())))
def test_any_words_give_intervals_that_are_not_empty(words: list[str]) -> None:
    found = find_times(" ".join(words), AT)
    assert all(one.since < one.until for one in found)


@pytest.mark.parametrize("piece", ["2", "2023-", "12 ", "last ", "may ", "12 of ", "a ", "in 2023 "])
def test_a_long_text_takes_linear_time(piece: str) -> None:
    def read(size: int) -> None:
        find_times(piece * (size // len(piece)) + " today", AT)

    assert grows_linearly(read, 4_000, 40_000)
