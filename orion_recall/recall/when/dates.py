"""Dates: in figures, a day and its month, a year, a decade, a quarter."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial

from orion_recall.recall.when.calendar import DAY, Span, months, shifted, unit_of, yearly, years
from orion_recall.recall.when.chosen import YEAR, choice, of_year, year_told
from orion_recall.recall.when.reading import Period, Reading
from orion_recall.recall.when.vocabulary import DECADES, MONTHS

_LEAP = 2024
_DAY_NUMBER = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)?")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})[-./](\d{1,4})(?:t(\d{1,2}):\d\d.*)?", re.DOTALL)
_MONTH_NUMBER = re.compile(r"(?:(\d{4})[-/](\d\d)|(\d{1,2})/(\d{4}))")


def numbered(reading: Reading, place: int) -> Period | None:
    """What begins with a number: a date in figures, a day and its month, a year, a decade, a quarter."""
    word = reading.word(place)
    if not word or (not word[0].isdigit() and not (word[0] == "q" or word[0] == "'")):
        return _decade_by_name(reading, place)
    if match := _DATE.fullmatch(word):
        return _in_figures(reading, place, match)
    if match := _MONTH_NUMBER.fullmatch(word):
        year, month = int(match[1] or match[4]), int(match[2] or match[3])
        return Period(months(year, month, 1), place + 1, "month", "period") if 1 <= month <= 12 else None
    if re.fullmatch(r"q[1-4]", word):
        return of_year(reading, place + 1, partial(months, first=int(word[1]) * 3 - 2, count=3), "quarter")
    if match := re.fullmatch(r"(?:(\d\d)|')?(\d)0s", word):
        return _decade(match[1], int(match[2]) * 10, place + 1)
    if (dated := _day_and_month(reading, place)) is not None:
        return dated
    if YEAR.fullmatch(word):
        if quarter := re.fullmatch(r"q([1-4])", reading.word(place + 1)):
            return Period(months(int(word), int(quarter[1]) * 3 - 2, 3), place + 2, "quarter", "period")
        if place == 0 or reading.led(place) or reading.word(place - 1) == "year":
            return Period(years(int(word), 1), place + 1, "year", "period")
        return None
    return _day_alone(reading, place)


def _in_figures(reading: Reading, place: int, match: re.Match[str]) -> Period | None:
    """Year first where it has four digits; with dots the day, with slashes the month, unless that cannot be."""
    one, other, last = int(match[1]), int(match[3]), int(match[4])
    if len(match[1]) == 4:
        year, month, day = one, other, last
    elif len(match[1]) > 2 or len(match[4]) == 3:
        return None
    else:
        year = last if len(match[4]) == 4 else last + (1900 if last >= 70 else 2000)
        day, month = (one, other) if match[2] == "." or reading.day_first else (other, one)
        if month > 12:
            day, month = month, day
    try:
        start = datetime(year, month, day)
    except ValueError:
        return None
    if match[5] is not None and int(match[5]) < 24:
        start = start.replace(hour=int(match[5]))
        return Period(Span(start, start + timedelta(hours=1)), place + 1, "hour", "date")
    return Period(Span(start, start + DAY), place + 1, "day", "date")


def _day_and_month(reading: Reading, place: int) -> Period | None:
    """ "7 May 2023", "7th of May", "3-5 May", "3 and 4 May"."""
    if not (match := _DAY_NUMBER.fullmatch(reading.word(place))) or not int(match[1]):
        return None
    first = last = int(match[1])
    after = place + 1
    if reading.word(after) in ("-", "–", "to") and (other := _DAY_NUMBER.fullmatch(reading.word(after + 1))):
        last, after = int(other[1]), after + 2
    if reading.word(after) in ("of", "day"):
        after += 1
    if (month := MONTHS.get(reading.word(after))) is None or last < first:
        return None
    after += 2 if reading.word(after + 1) == "." and len(reading.word(after)) <= 4 else 1
    return _days(reading, after, month, first, last)


def day_of_month(reading: Reading, place: int, month: int) -> Period | None:
    """After a month: "7", "7th, 2023", "the 7th", "3-5"."""
    if reading.word(place) == "the":
        place += 1
    word = reading.word(place)
    if not (match := _DAY_NUMBER.fullmatch(word)) or not int(match[1]):
        return None
    first = last = int(match[1])
    after = place + 1
    other = _DAY_NUMBER.fullmatch(reading.word(after + 1)) if reading.word(after) in ("-", "–", "to") else None
    if other is not None and int(other[1]) >= first:
        last, after = int(other[1]), after + 2
    return _days(reading, after, month, first, last)


def _days(reading: Reading, after: int, month: int, first: int, last: int) -> Period | None:
    """The days of a month; of a month that has them in no year (30 February) all of it."""
    if _month_days(month, first, last, _LEAP) is None:
        return of_year(reading, after, partial(months, first=month, count=1), "month")
    told = year_told(reading, after)
    if told is not None:
        span = _month_days(month, first, last, told[0]) or months(told[0], month, 1)
        return Period(span, told[1], "day", "date")

    def of(year: int) -> Span:
        # The 29th of February is that of the nearest leap year before.
        while (span := _month_days(month, first, last, year)) is None:
            year -= 1
        return span

    return Period(yearly(of, choice(reading, ""), reading.now), after, "day", "date", year_told=False)


def _month_days(month: int, first: int, last: int, year: int) -> Span | None:
    try:
        return Span(datetime(year, month, first), datetime(year, month, last) + DAY)
    except ValueError:
        return None


def _day_alone(reading: Reading, place: int) -> Period | None:
    """ "on the 15th": the latest such day that has begun."""
    match = re.fullmatch(r"([12]?\d|3[01])(?:st|nd|rd|th)", reading.word(place))
    if (
        not match
        or reading.word(place - 1) != "the"
        or reading.word(place - 2) not in ("on", "since", "until", "by")
    ):
        return None
    if reading.word(place + 1) and reading.word(place + 1) not in (",", ".", "?", "!"):
        return None
    month = unit_of(reading.now, "month").start
    for back in range(3):
        start = shifted(month, "month", back if reading.future else -back)
        day = start + DAY * (int(match[1]) - 1)
        begun = day <= reading.now if not reading.future else day + DAY > reading.now
        if day.month == start.month and begun:
            return Period(Span(day, day + DAY), place + 1, "day", "date", year_told=False)
    return None


def _decade_by_name(reading: Reading, place: int) -> Period | None:
    if (tens := DECADES.get(reading.word(place))) is None or reading.word(place - 1) not in (
        "the",
        "early",
        "mid",
        "late",
    ):
        return None
    return _decade(None, tens, place + 1)


def _decade(century: str | None, tens: int, after: int) -> Period:
    first = int(century) * 100 + tens if century else tens + (2000 if tens < 30 else 1900)
    return Period(years(first, 10), after, "decade", "period")
