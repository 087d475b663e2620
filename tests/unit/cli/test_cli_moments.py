from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.cli.options import moment
from orion_recall.errors import SettingsError

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T09:30:00Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01T09:30:00+02:00", datetime(2026, 3, 1, 7, 30, tzinfo=UTC)),
        ("PT2H", datetime(2026, 3, 10, 10, tzinfo=UTC)),
        ("30d", datetime(2026, 2, 8, 12, tzinfo=UTC)),
        ("5m", datetime(2026, 3, 10, 11, 55, tzinfo=UTC)),
        ("now", NOW),
        ("3 days ago", datetime(2026, 3, 7, tzinfo=UTC)),
        ("yesterday", datetime(2026, 3, 9, tzinfo=UTC)),
        ("today", datetime(2026, 3, 10, tzinfo=UTC)),
        ("last week", datetime(2026, 3, 2, tzinfo=UTC)),
        ("last Monday", datetime(2026, 3, 9, tzinfo=UTC)),
        ("may 2025", datetime(2025, 5, 1, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T09:30", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01 09:30:05", datetime(2026, 3, 1, 9, 30, 5, tzinfo=UTC)),
    ],
)
def test_a_time_or_how_long_ago(text: str, expected: datetime) -> None:
    assert moment("--since", text, now=NOW) == expected


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-03-01", "Europe/Berlin", datetime(2026, 2, 28, 23, tzinfo=UTC)),
        ("yesterday", "+05:00", datetime(2026, 3, 8, 19, tzinfo=UTC)),
        ("2026-03-01T09:30", "Europe/Berlin", datetime(2026, 3, 1, 8, 30, tzinfo=UTC)),
        ("2026-03-01T09:30Z", "Europe/Berlin", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("30d", "Europe/Berlin", datetime(2026, 2, 8, 12, tzinfo=UTC)),
    ],
)
def test_what_has_no_zone_is_in_the_one_given(text: str, zone: str, expected: datetime) -> None:
    assert moment("--since", text, timezone=zone, now=NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", datetime(2026, 3, 2, tzinfo=UTC)),
        ("yesterday", datetime(2026, 3, 10, tzinfo=UTC)),
        ("last week", datetime(2026, 3, 9, tzinfo=UTC)),
        ("2026-03-01T09:30Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("3 days ago", datetime(2026, 3, 8, tzinfo=UTC)),
    ],
)
def test_an_end_takes_the_whole_day_or_period(text: str, expected: datetime) -> None:
    assert moment("--until", text, end=True, now=NOW) == expected


def test_a_zone_that_there_is_not_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^--timezone: 'Europe/Olso' is not a time zone"):
        moment("--since", "yesterday", timezone="Europe/Olso")


@pytest.mark.parametrize(
    "text",
    ["someday", "P", "PX", "P99999999999D", "", "30", "-3d", "14:30", "until yesterday", "yesterday and monday"],
)
def test_anything_else_names_the_option_and_shows_examples(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--since: .* is no time; write a day \(2026-11-20, yesterday"):
        moment("--since", text, now=NOW)


@given(st.text(st.sampled_from("0123456789-+:TWZ agopdhw."), max_size=20))
def test_no_text_is_no_limit(text: str):
    with contextlib.suppress(SettingsError):
        assert moment("--until", text, now=NOW) is not None
