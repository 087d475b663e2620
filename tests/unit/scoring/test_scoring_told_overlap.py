from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from orion_recall.scoring.intervals import is_told_of, tells_of, told_ranges, told_share
from orion_recall.values import Interval, MemoryView, QuestionTime, ToldTime

DAY = 86_400.0
NOW = 20_000 * DAY + DAY / 2
TODAY = 20_000 * DAY


def interval(first: float, last: float) -> Interval:
    return Interval(start=TODAY + first * DAY, end=TODAY + last * DAY, kind="date", words="then")


def told(first: float, last: float, *, weekly: bool = False) -> ToldTime:
    return ToldTime(TODAY + first * DAY, TODAY + last * DAY, weekly)


def asked(first: float, last: float) -> tuple[float, float]:
    return TODAY + first * DAY, TODAY + last * DAY


def test_a_question_about_what_was_said_has_no_told_time():
    assert told_ranges(QuestionTime(intervals=(interval(0, 1),), of="said"), NOW) == ()


def test_what_is_to_come_begins_now():
    time = QuestionTime(intervals=(interval(-3, 4), interval(-3, -1)), of="told", ahead=True)
    assert told_ranges(time, NOW) == ((NOW, TODAY + 4 * DAY),)
    assert told_ranges(QuestionTime(asks_when=True, ahead=True), NOW) == ((NOW, None),)


@pytest.mark.parametrize("hours", [-5.0, 9.5])
def test_a_day_is_that_of_the_zone_and_a_told_one_has_its_date(hours: float):
    zone = timezone(timedelta(hours=hours))
    theirs = Interval(start=TODAY - hours * 3600, end=TODAY + DAY - hours * 3600, kind="date", words="today")
    of_past, ahead = (QuestionTime(intervals=(theirs,), zone=zone, ahead=ahead) for ahead in (False, True))
    assert told_ranges(of_past, NOW) == (asked(0, 1),)
    assert told_ranges(ahead, TODAY - hours * 3600 + 60) == ((TODAY + 60, TODAY + DAY),)
    assert told_ranges(replace(ahead, intervals=()), NOW) == ((NOW + hours * 3600, None),)


def test_a_question_about_the_past_is_not_cut():
    assert told_ranges(QuestionTime(intervals=(interval(-3, 4),)), NOW) == (asked(-3, 4),)
    assert told_ranges(QuestionTime(asks_when=True), NOW) == ()


@pytest.mark.parametrize(
    ("one", "share"),
    [
        (told(1, 2), 1.0),
        (told(1.5, 1.6), 1.0),
        (told(0, 1), 0.0),
        (told(2, 3), 0.0),
        (told(0, 4), 0.5),
        (told(-8, -7, weekly=True), 0.0),
        (told(-6, -5, weekly=True), 0.8),
        (told(1, 2, weekly=True), 0.8),
        (told(8, 9, weekly=True), 0.0),
    ],
)
def test_a_told_time_fits_by_its_overlap_and_its_length(one: ToldTime, share: float):
    assert told_share([one], [asked(1, 2)]) == pytest.approx(share)
    assert tells_of([one], [asked(1, 2)]) is (share > 0)


def test_open_intervals_overlap_what_lies_on_their_side():
    assert told_share([told(5, 6)], [(NOW, None)]) == 1.0
    assert told_share([told(-5, -4)], [(NOW, None)]) == 0.0
    assert told_share([told(-5, -4, weekly=True)], [(NOW, None)]) == 0.8
    assert told_share([], [(NOW, None)]) == 0.0


def test_what_happened_is_told_of_afterwards_and_of_nothing_much_longer():
    memory = MemoryView(id="m", text="", text_hash="", ts=TODAY + 3 * DAY, told=(told(1, 2),))
    before = memory._replace(ts=TODAY - DAY)
    vague = memory._replace(told=(told(-30, 30),))
    assert is_told_of(memory, [asked(1, 2)], ahead=False)
    assert not is_told_of(before, [asked(1, 2)], ahead=False)
    assert is_told_of(before, [asked(1, 2)], ahead=True)
    assert not is_told_of(vague, [asked(1, 2)], ahead=False)
