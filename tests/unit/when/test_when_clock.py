from __future__ import annotations

import pytest

from orion_recall.when.clock import clock_after, clock_before


def minutes(start: int, end: int) -> str:
    return f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("at 14:15", "14:15-14:16"),
        (", 9:40 sharp", "09:40-09:41"),
        ("at 2 pm", "14:00-15:00"),
        ("at 12 am", "00:00-01:00"),
        ("at noon", "12:00-13:00"),
        ("at five", "17:00-18:00"),
        ("at 5, please", "17:00-18:00"),
        ("at eleven o'clock", "11:00-12:00"),
        ("at half past three", "15:30-15:31"),
        ("at quarter to eight", "07:45-07:46"),
        ("from 9 to 11:30", "09:00-11:30"),
        ("2 to 4 pm", "14:00-16:00"),
        ("at 5 places", None),
        ("at 3.50 euros", None),
        ("7 people", None),
        ("25:10", None),
    ],
)
def test_a_clock_time_after_a_day(text: str, told: str | None):
    found = clock_after(text, 0)
    assert (None if found is None else minutes(found.start, found.end)) == told


def test_an_evening_has_its_hours():
    found = clock_after("at 8", 0, pm_until=11)
    assert found is not None
    assert found.start == 20 * 60


def test_a_clock_time_before_a_day():
    text = "we land at 06:45 on Saturday"
    found = clock_before(text, text.index("Saturday"))
    assert found is not None
    assert text[found[0] :].startswith("at 06:45")
    assert minutes(found[1].start, found[1].end) == "06:45-06:46"
    assert clock_before("platform 12 on Saturday", 15) is None
