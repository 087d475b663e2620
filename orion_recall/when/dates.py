"""Dates in words and digits, and those that come again: 30 November, 3.5.2023, every second Tuesday."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from orion_recall.when.calendar import DAY, Span, months, shifted, unit_of, yearly, years
from orion_recall.when.reading import Period, Reading, duration
from orion_recall.when.vocabulary import DAY_WORDS, LAST, MONTHS, NEXT, THIS

YEAR: Final = re.compile(r"(?:1[5-9]|20)\d\d")


SHORT_YEAR: Final = re.compile(r"'(\d\d)")


def whole_year(digits: str) -> int:
    """1970 to 2069 from two digits."""
    return int(digits) + (1900 if int(digits) >= 70 else 2000)


def choice(reading: Reading, modifier: str) -> str:
    """Which one of a recurring period: by the word before it (last, this, next), else by the tense."""
    if modifier in LAST:
        return "last"
    if modifier in THIS:
        return "this"
    if modifier in NEXT:
        return "next"
    return "ahead" if reading.future else "begun"


def year_told(reading: Reading, place: int) -> tuple[int, int] | None:
    """The year that words after a month, a date or a holiday say, and the place after them.

    "2022", "of 2022", ", 2022", "last year", "two years ago".
    """
    while reading.word(place) in ("of", "in", ",", "the", "."):
        place += 1
    word, following = reading.word(place), reading.word(place + 1)
    if YEAR.fullmatch(word):
        return int(word), place + 1
    if (short := SHORT_YEAR.fullmatch(word)) is not None:
        return whole_year(short[1]), place + 1
    if following in ("year", "year's"):
        if word in LAST:
            return reading.now.year - 1, place + 2
        if word in THIS:
            return reading.now.year, place + 2
        if word in NEXT:
            return reading.now.year + 1, place + 2
    past = duration(reading, place)
    if past is not None and past.unit == "year" and past.least == past.most and reading.word(past.after) == "ago":
        return reading.now.year - past.least, past.after + 1
    return None


def of_year(reading: Reading, after: int, of: Callable[[int], Span], grain: str, modifier: str = "") -> Period:
    """A yearly period in the year that is named or chosen."""
    told = None if modifier else year_told(reading, after)
    if told is not None:
        return Period(of(told[0]), told[1], grain, "date" if grain == "day" else "period")
    span = yearly(of, choice(reading, modifier), reading.now)
    return Period(span, after, grain, "relative" if modifier else "period", year_told=bool(modifier))


_LEAP = 2024
_DAY_NUMBER = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)?")
_ORDINAL_DAY = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})[-./](\d{1,4})(?:t(\d{1,2}):\d\d.*)?", re.DOTALL)
_MONTH_NUMBER = re.compile(r"(?:(\d{4})[-/](\d\d)|(\d{1,2})/(\d{4}))")


def numbered(reading: Reading, place: int) -> Period | None:
    """What begins with a number: a date in figures, a day and its month, a year, a decade, a quarter."""
    word = reading.word(place)
    if not word or (not word[0].isdigit() and not (word[0] == "q" or word[0] == "'")):
        in_words = word in DAY_WORDS or word in ("twenty", "thirty")
        return _day_and_month(reading, place) if in_words else None
    if match := _DATE.fullmatch(word):
        return _in_figures(reading, place, match)
    if match := _MONTH_NUMBER.fullmatch(word):
        year, month = int(match[1] or match[4]), int(match[2] or match[3])
        return Period(months(year, month, 1), place + 1, "month", "period") if 1 <= month <= 12 else None
    if re.fullmatch(r"q[1-4]", word):
        return of_year(reading, place + 1, partial(months, first=int(word[1]) * 3 - 2, count=3), "quarter")
    if match := re.fullmatch(r"(?:(\d\d)|')?(\d)0s", word):
        return _decade(match[1], int(match[2]) * 10, place + 1)
    if (short := SHORT_YEAR.fullmatch(word)) is not None:
        led = place == 0 or reading.led(place)
        return Period(years(whole_year(short[1]), 1), place + 1, "year", "period") if led else None
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
    """Year first where it has four digits; else the day, but with slashes the month, unless that cannot be."""
    one, other, last = int(match[1]), int(match[3]), int(match[4])
    if len(match[1]) == 4:
        year, month, day = one, other, last
    elif len(match[1]) > 2 or len(match[4]) == 3:
        return None
    else:
        year = last if len(match[4]) == 4 else whole_year(match[4])
        day, month = (one, other) if match[2] != "/" or reading.day_first else (other, one)
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
    """ "7 May 2023", "7th of May", "3-5 May", "first of May"."""
    if (counted := _day_number(reading, place)) is None:
        return None
    first, after = counted
    last = first
    if reading.word(after) in ("-", "–", "to") and (other := _DAY_NUMBER.fullmatch(reading.word(after + 1))):
        last, after = int(other[1]), after + 2
    if reading.word(after) in ("of", "day"):
        after += 1
    month = MONTHS.get(reading.word(after))
    if month is None or last < first:
        return None
    after += 2 if reading.word(after + 1) == "." and len(reading.word(after)) <= 4 else 1
    return _days(reading, after, month, first, last)


def day_of_month(reading: Reading, place: int, month: int) -> Period | None:
    """After a month: "7", "7th, 2023", "the 7th", "3-5"."""
    if reading.word(place) == "the":
        place += 1
    if (counted := _day_number(reading, place)) is None:
        return None
    first, after = counted
    last = first
    other = _DAY_NUMBER.fullmatch(reading.word(after + 1)) if reading.word(after) in ("-", "–", "to") else None
    if other is not None and int(other[1]) >= first:
        last, after = int(other[1]), after + 2
    return _days(reading, after, month, first, last)


def _day_number(reading: Reading, place: int) -> tuple[int, int] | None:
    """The day of a month in figures or words ("7th", "first", "twenty-first"), and the place after it."""
    word, after = reading.word(place), place + 1
    if (match := _DAY_NUMBER.fullmatch(word)) is not None:
        return (int(match[1]), after) if int(match[1]) else None
    if word in ("twenty", "thirty"):
        after += 1 if reading.word(after) == "-" else 0
        last = DAY_WORDS.get(reading.word(after), 10)
        return ((20 if word == "twenty" else 30) + last, after + 1) if last < 10 else None
    return (DAY_WORDS[word], after) if word in DAY_WORDS else None


def _days(reading: Reading, after: int, month: int, first: int, last: int) -> Period | None:
    """The days of a month; of a month that has them in no year (30 February) all of it."""
    if _month_days(month, first, last, _LEAP) is None:
        return of_year(reading, after, partial(months, first=month, count=1), "month")
    told = year_told(reading, after)
    if told is not None:
        span = _month_days(month, first, last, told[0]) or months(told[0], month, 1)
        return Period(span, told[1], "day", "date")

    def of(year: int) -> Span:
        # The 29th of February is that of the nearest leap year before, eight years back at most.
        found = (_month_days(month, first, last, year - back) for back in range(9))
        return next((span for span in found if span is not None), months(year, month, 1))

    return Period(yearly(of, choice(reading, ""), reading.now), after, "day", "date", year_told=False)


def _month_days(month: int, first: int, last: int, year: int) -> Span | None:
    try:
        return Span(datetime(year, month, first), datetime(year, month, last) + DAY)
    except ValueError:
        return None


def _day_alone(reading: Reading, place: int) -> Period | None:
    """ "on the 15th", "the 15th and the 16th": the latest such day that has begun, or the next."""
    match = _ORDINAL_DAY.fullmatch(reading.word(place))
    if match is None or not _is_a_day(reading, place):
        return None
    month = unit_of(reading.now, "month").start
    for back in range(3):
        start = shifted(month, "month", back if reading.future else -back)
        day = start + DAY * (int(match[1]) - 1)
        begun = day <= reading.now if not reading.future else day + DAY > reading.now
        if day.month == start.month and begun:
            return Period(Span(day, day + DAY), place + 1, "day", "date", year_told=False)
    return None


def _is_a_day(reading: Reading, place: int) -> bool:
    """Of an ordinal number: "on the 15th", "the 15th and 16th", "the 15th and the 16th", at the end of a clause."""
    following = reading.word(place + 1)
    ahead = reading.word(place + 3 if reading.word(place + 2) == "the" else place + 2)
    pair = following == "and" and _ORDINAL_DAY.fullmatch(ahead) is not None
    if following and following not in (",", ".", "?", "!") and not pair:
        return False
    before = place - 2 if reading.word(place - 1) == "the" else place - 1
    if before < place - 1 and reading.word(before) in ("on", "of", "since", "until", "by", ",", "for"):
        return not pair or reading.word(before) != "of"
    return reading.word(before) == "and" and _ORDINAL_DAY.fullmatch(reading.word(before - 1)) is not None


def _decade(century: str | None, tens: int, after: int) -> Period:
    first = int(century) * 100 + tens if century else tens + (2000 if tens < 30 else 1900)
    return Period(years(first, 10), after, "decade", "period")
