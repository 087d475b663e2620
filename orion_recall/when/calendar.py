"""Calendar arithmetic on local times without a zone. Weeks begin on Monday."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from orion_recall.when.vocabulary import HOLIDAYS

DAY = timedelta(days=1)
WEEK = timedelta(days=7)


class Span(NamedTuple):
    """The half-open interval from `start` to `end`."""

    start: datetime
    end: datetime


def moved(span: Span, by: timedelta) -> Span:
    """The span, that much later."""
    return Span(span.start + by, span.end + by)


def day_of(moment: datetime) -> datetime:
    """Its midnight."""
    return datetime(moment.year, moment.month, moment.day)


def unit_of(moment: datetime, unit: str) -> Span:
    """The day, week, weekend (Saturday and Sunday of its week), month, quarter, year, … that the moment is in."""
    day = day_of(moment)
    monday = day - DAY * day.weekday()
    match unit:
        case "day":
            return Span(day, day + DAY)
        case "week":
            return Span(monday, monday + WEEK)
        case "weekend":
            return Span(monday + 5 * DAY, monday + WEEK)
        case "fortnight":
            return Span(monday - WEEK, monday + WEEK)
        case "month":
            return months(day.year, day.month, 1)
        case "quarter":
            return months(day.year, (day.month - 1) // 3 * 3 + 1, 3)
        case "year":
            return years(day.year, 1)
        case "decade":
            return years(day.year // 10 * 10, 10)
        case _:
            return years(day.year // 100 * 100, 100)


def shifted(moment: datetime, unit: str, count: int) -> datetime:
    """So many units later, or earlier; a day that the month has not becomes its last."""
    match unit:
        case "day":
            return moment + count * DAY
        case "week" | "weekend":
            return moment + count * WEEK
        case "fortnight":
            return moment + 2 * count * WEEK
        case "month" | "quarter":
            places = moment.year * 12 + moment.month - 1 + count * (3 if unit == "quarter" else 1)
        case _:
            places = moment.year * 12 + moment.month - 1
            places += 12 * count * {"decade": 10, "century": 100}.get(unit, 1)
    year, month = divmod(places, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def months(year: int, first: int, count: int) -> Span:
    """Whole months from that one on."""
    start = datetime(year, first, 1)
    return Span(start, shifted(start, "month", count))


def years(first: int, count: int) -> Span:
    """Whole years from that one on."""
    return Span(datetime(first, 1, 1), datetime(first + count, 1, 1))


def third(span: Span, which: int) -> Span:
    """The first, middle or last third, in whole days where it has three."""
    length = (span.end - span.start) / 3
    edges = [span.start, span.start + length, span.end - length, span.end]
    if length >= DAY:
        edges = [span.start, _nearest_day(edges[1]), _nearest_day(edges[2]), span.end]
    return Span(edges[which], edges[which + 1])


def _nearest_day(moment: datetime) -> datetime:
    return day_of(moment + DAY / 2)


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
        start = datetime(year, month, one)
        return Span(start, start + DAY * (other - one + 1))
    if rule == "easter":
        sunday = easter(year)
        return Span(sunday + DAY * one, sunday + DAY * (other + 1))
    start = nth_weekday(months(year, month, 1), other, one) + DAY * later
    return Span(start, start + DAY)


def season(month: int, year: int, *, south: bool) -> Span:
    """Three months from `month` (as in the north) on, named by the year in which they begin."""
    return months(year, (month + 5) % 12 + 1 if south else month, 3)


def yearly(of_year: Callable[[int], Span], choice: str, now: datetime) -> Span:
    """Which one of what comes every year: the `last` that is over, `this` (that of now, else of the year of now),
    the `next` that has not begun, the latest that has `begun`, or the first that is `ahead` (not over).

    ValueError where none lies ahead in eight years, which is as rare as a 29th of February gets.
    """
    found = [of_year(year) for year in range(now.year - 2, now.year + 3)]
    coming = chain(found, map(of_year, range(now.year + 3, now.year + 9)))
    if choice == "last":
        return [span for span in found if span.end <= now][-1]
    if choice == "next":
        return _first(span for span in coming if span.start > now)
    if choice == "begun":
        return [span for span in found if span.start <= now][-1]
    if choice == "ahead":
        return _first(span for span in coming if span.end > now)
    return next((span for span in found if span.start <= now < span.end), found[2])


def _first(spans: Iterator[Span]) -> Span:
    if (found := next(spans, None)) is None:
        raise ValueError("there is none in the years ahead")
    return found
