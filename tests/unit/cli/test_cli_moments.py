from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.cli.options import moment
from orion_recall.errors import SettingsError

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("2026-03-01T09:30:00Z", {}, "03-01 09:30"),
        ("2026-03-01T09:30:00+02:00", {}, "03-01 07:30"),
        ("PT2H", {}, "03-10 10:00"),
        ("30d", {}, "02-08 12:00"),
        ("5m", {}, "03-10 11:55"),
        ("now", {}, "03-10 12:00"),
        ("3 days ago", {}, "03-07 00:00"),
        ("yesterday", {}, "03-09 00:00"),
        ("today", {}, "03-10 00:00"),
        ("last week", {}, "03-02 00:00"),
        ("last Monday", {}, "03-09 00:00"),
        ("january 2026", {}, "01-01 00:00"),
        ("2026-03-01", {}, "03-01 00:00"),
        ("2026-03-01T09:30", {}, "03-01 09:30"),
        ("2026-03-01 09:30:05", {}, "03-01 09:30"),
        ("2026-03-01", {"timezone": "Europe/Berlin"}, "02-28 23:00"),
        ("yesterday", {"timezone": "+05:00"}, "03-08 19:00"),
        ("2026-03-01T09:30", {"timezone": "Europe/Berlin"}, "03-01 08:30"),
        ("2026-03-01T09:30Z", {"timezone": "Europe/Berlin"}, "03-01 09:30"),
        ("30d", {"timezone": "Europe/Berlin"}, "02-08 12:00"),
        ("2026-03-01", {"end": True}, "03-02 00:00"),
        ("yesterday", {"end": True}, "03-10 00:00"),
        ("last week", {"end": True}, "03-09 00:00"),
        ("2026-03-01T09:30Z", {"end": True}, "03-01 09:30"),
        ("3 days ago", {"end": True}, "03-08 00:00"),
    ],
)
def test_a_time_or_how_long_ago_in_its_zone_and_the_end_of_a_day_or_period(
    text: str, options: dict[str, Any], expected: str
) -> None:
    read = moment("--since", text, now=NOW, **options)
    assert read is not None
    assert f"{read:%Y %m-%d %H:%M %z}" == f"2026 {expected} +0000"


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
