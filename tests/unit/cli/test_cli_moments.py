from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.cli.moments import moment
from orion_recall.errors import SettingsError

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T09:30:00Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01T09:30:00+02:00", datetime(2026, 3, 1, 7, 30, tzinfo=UTC)),
        ("PT2H", datetime(2026, 3, 10, 10, tzinfo=UTC)),
        ("P3D", datetime(2026, 3, 7, 12, tzinfo=UTC)),
        ("PT0S", NOW),
        ("30d", datetime(2026, 2, 8, 12, tzinfo=UTC)),
        ("2w", datetime(2026, 2, 24, 12, tzinfo=UTC)),
        ("12h", datetime(2026, 3, 10, 0, tzinfo=UTC)),
        ("5m", datetime(2026, 3, 10, 11, 55, tzinfo=UTC)),
    ],
)
def test_a_time_or_how_long_ago(text: str, expected: datetime) -> None:
    assert moment("--since", text, now=NOW) == expected


def test_nothing_stays_nothing() -> None:
    assert moment("--since", None) is None


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-03-01T09:30:00", "P", "PX", "P99999999999D", "", "30", "3y", "-3d", "99999999w"]
)
def test_anything_else_names_the_option(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--since: .* write how long ago \(5m, 12h, 30d, 2w"):
        moment("--since", text, now=NOW)


def test_a_time_without_its_zone_is_told_what_it_lacks() -> None:
    with pytest.raises(SettingsError, match=r"no time \(the time has no zone: append Z"):
        moment("--since", "2026-03-01T09:30:00", now=NOW)
