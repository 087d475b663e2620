from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from orion_recall.text.zones import time_zone

NOON = datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("Europe/Berlin", 2), ("+05:30", 5.5), ("-0800", -8), ("UTC+2", 2), ("GMT-3", -3)],
)
def test_zones_have_names_and_offsets(name: str, hours: float):
    assert NOON.replace(tzinfo=time_zone(name)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "Europe", "+25:00", "/etc/passwd", "a\0b"])
def test_anything_else_is_refused(name: str):
    with pytest.raises(ValueError, match="IANA name"):
        time_zone(name)


def test_utc_is_the_one_of_the_standard_library():
    assert time_zone("utc") is UTC
