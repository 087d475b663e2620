"""Calendar arithmetic on local times without a zone. Weeks begin on Monday."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from orion_recall.when.vocabulary import HOLIDAYS

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
_MINUTE = timedelta(minutes=1)
_STEPS = {
    "minute": _MINUTE, "hour": 60 * _MINUTE, "day": DAY, "week": WEEK, "weekend": WEEK, "fortnight": 2 * WEEK,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}


class Span(NamedTuple):
    """The half-open interval from `start` to `end`."""

    start: datetime
    end: datetime

    def moved(self, by: timedelta) -> Span:
        return Span(self.start + by, self.end + by)


def day_of(moment: datetime) -> datetime:
    """Its midnight."""
    return datetime(moment.year, moment.month, moment.day)


def whole_days(first: datetime, count: int = 1) -> Span:
    """Whole days from the first on."""
    return Span(first, first + DAY * count)


def unit_of(moment: datetime, unit: str) -> Span:
    """The day, week, weekend (Saturday and Sunday of its week), month, quarter, year, … that the moment is in."""
    day = day_of(moment)
    monday = day - DAY * day.weekday()
    match unit:
        case "day":
            return whole_days(day)
        case "week":
            return whole_days(monday, 7)
        case "weekend":
            return whole_days(monday + 5 * DAY, 2)
        case "fortnight":
            return whole_days(monday - WEEK, 14)
        case _:
            count = _MONTHS[unit]
            year, month = divmod((day.year * 12 + day.month - 1) // count * count, 12)
            return months(year, month + 1, count)


def shifted(moment: datetime, unit: str, count: int) -> datetime:
    """So many units later, or earlier; a day that the month has not becomes its last."""
    if unit in _STEPS:
        return moment + count * _STEPS[unit]
    year, month = divmod(moment.year * 12 + moment.month - 1 + count * _MONTHS[unit], 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def months(year: int, first: int, count: int) -> Span:
    """Whole months from that one on."""
    start = datetime(year, first, 1)
    return Span(start, shifted(start, "month", count))


def years(first: int, count: int = 1) -> Span:
    """Whole years from that one on."""
    return months(first, 1, 12 * count)


def third(span: Span, which: int) -> Span:
    """The first, middle or last third, in whole days where it has three."""
    length = (span.end - span.start) / 3
    edges = [span.start, span.start + length, span.end - length, span.end]
    if length >= DAY:
        edges[1:3] = [day_of(edge + DAY / 2) for edge in edges[1:3]]
    return Span(edges[which], edges[which + 1])


def nth_weekday(span: Span, weekday: int, count: int) -> datetime:
    """The day of the span that is its `count`-th such weekday, from 1 on; from its end for -1."""
    if count > 0:
        return span.start + DAY * ((weekday - span.start.weekday()) % 7) + WEEK * (count - 1)
    last = span.end - DAY
    return last - DAY * ((last.weekday() - weekday) % 7)


def easter(year: int) -> datetime:
    """Easter Sunday of the Gregorian calendar (the anonymous algorithm in Meeus, Astronomical Algorithms, 1991)."""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), f = divmod(b, 4), (b + 8) // 25
    g = (b - f + 1) // 3
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    j = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * j) // 451
    month, day = divmod(h + j - 7 * m + 114, 31)
    return datetime(year, month, day + 1)


def holiday(name: tuple[str, ...], year: int) -> Span:
    """The holiday of a year, its days whole."""
    rule, month, one, other, later = HOLIDAYS[name]
    if rule == "fixed":
        return whole_days(datetime(year, month, one), other - one + 1)
    if rule == "easter":
        return whole_days(easter(year) + DAY * one, other - one + 1)
    return whole_days(nth_weekday(months(year, month, 1), other, one) + DAY * later)


def season(month: int, south: bool, year: int) -> Span:
    """Three months from `month` (as in the north) on, named by the year in which they begin."""
    return months(year, (month + 5) % 12 + 1 if south else month, 3)


def yearly(of_year: Callable[[int], Span], choice: str, now: datetime) -> Span:
    """Which one of what comes every year: the `last` that is over, `this` (that of now, else of the year of now),
    the `next` that has not begun, the latest that has `begun`, or the first that is `ahead` (not over).

    ValueError where none lies ahead in eight years, which is as rare as a 29th of February gets.
    """
    near = [of_year(year) for year in range(now.year - 2, now.year + 3)]
    match choice:
        case "last":
            return [span for span in near if span.end <= now][-1]
        case "begun":
            return [span for span in near if span.start <= now][-1]
        case "this":
            return next((span for span in near if span.start <= now < span.end), near[2])
        case _:
            coming = chain(near, map(of_year, range(now.year + 3, now.year + 9)))
            found = next((one for one in coming if (one.start if choice == "next" else one.end) > now), None)
            if found is None:
                raise ValueError("there is none in the years ahead")
            return found
