from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.when.told_start import told_start

SAID = datetime(2026, 10, 20, 9, tzinfo=UTC).timestamp()  # a Tuesday


def start(text: str, said: float = SAID) -> str | None:
    found = told_start(text, said)
    return None if found is None else datetime.fromtimestamp(found, UTC).date().isoformat()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The ferry costs 14 crowns from 9 December.", "2026-12-09"),
        ("Starting Thursday I swim at the other pool.", "2026-10-22"),
        ("As of the 4th of January Runa runs the archive.", "2027-01-04"),
        ("Effective February 2027 the subscription is 30.", "2027-02-01"),
        ("We have been using the side gate since last Friday.", "2026-10-16"),
        ("The kiosk shuts at 16:00 from next month on.", "2026-11-01"),
        ("The orchestra meets on Wednesdays, beginning in March.", "2027-03-01"),
    ],
)
def test_a_text_tells_from_when_on_something_is_so(text: str, day: str):
    assert start(text) == day


@pytest.mark.parametrize(
    "text",
    [
        "The ferry costs 14 crowns now.",
        "From now on I swim at the other pool.",
        "Desk hours are from Monday to Thursday.",
        "The show was moved from 3 May to 5 May.",
        "The lift is closed from 3 May until 5 June.",
        "From 3 to 5 May the lift is closed.",
        "We sailed on Friday from the old quay.",
        "Ida has it from 3 November, Olaf from 8 December.",
    ],
)
def test_a_range_a_place_and_several_beginnings_are_none(text: str):
    assert start(text) is None


def test_a_time_beyond_the_calendar_has_no_days():
    assert start("From 9 December it is 14 crowns.", 1e18) is None


def test_of_a_long_text_the_beginning_is_read():
    assert start("words " * 400 + "From 9 December it is 14 crowns.") is None
