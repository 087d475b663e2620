"""Dates in words and digits, and those that come again: 30 November, 3.5.2023, every second Tuesday."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from orion_recall.when.calendar import DAY, Span, day_of, months, shifted, whole_days, yearly, years
from orion_recall.when.reading import Period, Reading, duration
from orion_recall.when.vocabulary import DAY_WORDS, MODIFIERS, MONTHS

_YEAR: Final = re.compile(r"(?:1[5-9]|20)\d\d")
_SHORT_YEAR: Final = re.compile(r"'(\d\d)")
_LEAP = 2024
_DAY_NUMBER = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)?")
ORDINAL_DAY: Final = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})[-./](\d{1,4})(?:t(\d{1,2}):\d\d.*)?", re.DOTALL)
_MONTH_NUMBER = re.compile(r"(?:(\d{4})[-/](\d\d)|(\d{1,2})/(\d{4}))")
_QUARTER: Final = re.compile(r"q([1-4])")
_TO: Final = ("-", "–", "to")


def _whole_year(digits: str) -> int:
    """1970 to 2069 from two digits."""
    return int(digits) + (1900 if int(digits) >= 70 else 2000)


def choice(read: Reading, modifier: str) -> str:
    """Which one of a recurring period: by the word before it (last, this, next), else by the tense."""
    if modifier:
        return ("this", "next", "last")[MODIFIERS[modifier]]
    return "ahead" if read.future else "begun"


def year_told(read: Reading, place: int) -> tuple[int, int] | None:
    """The year after a month, date or holiday ("2022", ", 2022", "two years ago"), and the place after it."""
    place = read.skip(place, "of", "in", ",", "the", ".")
    word = read.word(place)
    if _YEAR.fullmatch(word):
        return int(word), place + 1
    if (short := _SHORT_YEAR.fullmatch(word)) is not None:
        return _whole_year(short[1]), place + 1
    if read.word(place + 1) in ("year", "year's") and word in MODIFIERS:
        return read.now.year + MODIFIERS[word], place + 2
    past = duration(read, place)
    if past is not None and past.unit == "year" and past.least == past.most and read.word(past.after) == "ago":
        return read.now.year - past.least, past.after + 1
    return None


def of_year(read: Reading, after: int, of: Callable[[int], Span], grain: str, modifier: str = "") -> Period:
    """A yearly period in the year that is named or chosen."""
    if not modifier and (told := year_told(read, after)) is not None:
        return Period(of(told[0]), told[1], grain, "date" if grain == "day" else "period")
    span = yearly(of, choice(read, modifier), read.now)
    return Period(span, after, grain, "relative" if modifier else "period", year_told=bool(modifier))


def quarter(count: int, year: int) -> Span:
    return months(year, count * 3 - 2, 3)


def numbered(read: Reading, place: int) -> Period | None:
    """What begins with a number: a date in figures, a day and its month, a year, a decade, a quarter."""
    word = read.word(place)
    if word[:1] not in ("q", "'") and not word[:1].isdigit():
        return _day_and_month(read, place)
    if match := _DATE.fullmatch(word):
        return _in_figures(read, place, match)
    if match := _MONTH_NUMBER.fullmatch(word):
        year, month = int(match[1] or match[4]), int(match[2] or match[3])
        return Period(months(year, month, 1), place + 1, "month", "period") if 1 <= month <= 12 else None
    if match := _QUARTER.fullmatch(word):
        return of_year(read, place + 1, partial(quarter, int(match[1])), "quarter")
    if match := re.fullmatch(r"(?:(\d\d)|')?(\d)0s", word):
        century, tens = match[1], int(match[2]) * 10
        first = int(century) * 100 + tens if century else tens + (2000 if tens < 30 else 1900)
        return Period(years(first, 10), place + 1, "decade", "period")
    is_led = place == 0 or read.led(place)
    if match := _SHORT_YEAR.fullmatch(word):
        return Period(years(_whole_year(match[1])), place + 1, "year", "period") if is_led else None
    if (dated := _day_and_month(read, place)) is not None:
        return dated
    if not _YEAR.fullmatch(word):
        return _day_alone(read, place)
    if match := _QUARTER.fullmatch(read.word(place + 1)):
        return Period(quarter(int(match[1]), int(word)), place + 2, "quarter", "period")
    is_led = is_led or read.word(place - 1) == "year"
    return Period(years(int(word)), place + 1, "year", "period") if is_led else None


def _in_figures(read: Reading, place: int, match: re.Match[str]) -> Period | None:
    """Year first where it has four digits; else the day, but with slashes the month, unless that cannot be."""
    one, other, last = int(match[1]), int(match[3]), int(match[4])
    if len(match[1]) == 4:
        year, month, day = one, other, last
    elif len(match[1]) > 2 or len(match[4]) == 3:
        return None
    else:
        year = last if len(match[4]) == 4 else _whole_year(match[4])
        day, month = (one, other) if match[2] != "/" or read.day_first else (other, one)
        if month > 12:
            day, month = month, day
    try:
        start = datetime(year, month, day)
    except ValueError:
        return None
    if match[5] is not None and int(match[5]) < 24:
        start = start.replace(hour=int(match[5]))
        return Period(Span(start, start + timedelta(hours=1)), place + 1, "hour", "date")
    return Period(whole_days(start), place + 1, "day", "date")


def _day_and_month(read: Reading, place: int) -> Period | None:
    """ "7 May 2023", "7th of May", "3-5 May", "first of May"."""
    if (counted := _day_numbers(read, place)) is None:
        return None
    first, last, after = counted
    after += read.word(after) in ("of", "day")
    if (month := MONTHS.get(read.word(after))) is None:
        return None
    after += 2 if read.word(after + 1) == "." and len(read.word(after)) <= 4 else 1
    return _days(read, after, month, first, last)


def day_of_month(read: Reading, place: int, month: int) -> Period | None:
    """After a month: "7", "7th, 2023", "the 7th", "3-5"."""
    counted = _day_numbers(read, place + (read.word(place) == "the"))
    return None if counted is None else _days(read, counted[2], month, *counted[:2])


def _day_numbers(read: Reading, place: int) -> tuple[int, int, int] | None:
    """The first and the last day of a month in figures or words ("7th", "3-5", "twenty-first"), the place after."""
    word, after = read.word(place), place + 1
    if (match := _DAY_NUMBER.fullmatch(word)) is not None:
        first = int(match[1])
    elif word in ("twenty", "thirty"):
        after += read.word(after) == "-"
        last = DAY_WORDS.get(read.word(after), 10)
        first, after = ((20 if word == "twenty" else 30) + last if last < 10 else 0), after + 1
    else:
        first = DAY_WORDS.get(word, 0)
    if not first:
        return None
    other = _DAY_NUMBER.fullmatch(read.word(after + 1)) if read.word(after) in _TO else None
    is_range = other is not None and int(other[1]) >= first
    return (first, int(other[1]), after + 2) if other is not None and is_range else (first, first, after)


def _days(read: Reading, after: int, month: int, first: int, last: int) -> Period | None:
    """The days of a month; of a month that has them in no year (30 February) all of it."""
    if _month_days(month, first, last, _LEAP) is None:
        return of_year(read, after, partial(months, first=month, count=1), "month")
    if (told := year_told(read, after)) is not None:
        span = _month_days(month, first, last, told[0]) or months(told[0], month, 1)
        return Period(span, told[1], "day", "date")

    def of(year: int) -> Span:
        # The 29th of February is that of the nearest leap year before, eight years back at most.
        found = (_month_days(month, first, last, year - back) for back in range(9))
        return next((span for span in found if span is not None), months(year, month, 1))

    return Period(yearly(of, choice(read, ""), read.now), after, "day", "date", year_told=False)


def _month_days(month: int, first: int, last: int, year: int) -> Span | None:
    try:
        return Span(datetime(year, month, first), datetime(year, month, last) + DAY)
    except ValueError:
        return None


def _day_alone(read: Reading, place: int) -> Period | None:
    """ "on the 15th", "the 15th and the 16th", at the end of a clause: the latest that has begun, or the next."""
    match, following = ORDINAL_DAY.fullmatch(read.word(place)), read.word(place + 1)
    other = read.word(place + 3 if read.word(place + 2) == "the" else place + 2)
    is_pair = following == "and" and ORDINAL_DAY.fullmatch(other) is not None
    if match is None or not (is_pair or following in ("", ",", ".", "?", "!")):
        return None
    before = place - 2 if read.word(place - 1) == "the" else place - 1
    lead = read.word(before)
    if before == place - 2 and lead in ("on", "of", "since", "until", "by", ",", "for"):
        is_a_day = not is_pair or lead != "of"
    else:
        is_a_day = lead == "and" and ORDINAL_DAY.fullmatch(read.word(before - 1)) is not None
    day = nearest(numbered_days(read.now, int(match[1])), read.now, ahead=read.future) if is_a_day else None
    return None if day is None else Period(whole_days(day), place + 1, "day", "date", year_told=False)


def numbered_days(now: datetime, number: int) -> list[datetime]:
    """The days of that number in the months around now, in order."""
    first = day_of(now).replace(day=1)
    found = ((start, start + DAY * (number - 1)) for start in (shifted(first, "month", n) for n in range(-3, 5)))
    return [day for start, day in found if number and day.month == start.month]


def nearest(days: Sequence[datetime], now: datetime, *, ahead: bool) -> datetime | None:
    """Of days in their order the first that is not over, or the last that has begun."""
    today = day_of(now)
    fitting = (day for day in days if day >= today) if ahead else (day for day in reversed(days) if day <= today)
    return next(fitting, None)
