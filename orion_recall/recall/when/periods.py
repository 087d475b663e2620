"""Periods by name: dates, months, seasons, holidays, weekdays, years; and what says which one is meant.

Each rule takes a reading and a place, and gives the period that begins there, or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from orion_recall.recall.when.calendar import (
    DAY,
    WEEK,
    Span,
    day_of,
    holiday,
    months,
    nth_weekday,
    season,
    shifted,
    unit_of,
    yearly,
    years,
)
from orion_recall.recall.when.reading import Period, Reading, duration
from orion_recall.recall.when.vocabulary import (
    DECADES,
    HOLIDAY_BEGINNINGS,
    LAST,
    MONTHS,
    NEXT,
    ORDINALS,
    PARTS,
    SEASONS,
    THIS,
    WEEKDAYS,
)

_LEAP = 2024
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_DAY_NUMBER = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)?")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})[-./](\d{1,4})(?:t(\d{1,2}):\d\d.*)?", re.DOTALL)
_MONTH_NUMBER = re.compile(r"(?:(\d{4})[-/](\d\d)|(\d{1,2})/(\d{4}))")
# Also verbs, names or other things: a capital or a word before them must say that they are months.
_DOUBTFUL = frozenset("may march mar sun sat mon wed fri jan dec spring fall second".split())


def choice(reading: Reading, modifier: str) -> str:
    """Which of what comes again and again a word before it chooses; without one the tense does."""
    if modifier in LAST:
        return "last"
    if modifier in THIS:
        return "this"
    if modifier in NEXT:
        return "next"
    return "ahead" if reading.future else "begun"


def year_told(reading: Reading, place: int) -> tuple[int, int] | None:
    """The year that words after a month, a date or a holiday say, and the place after them.

    "2022", "of 2022", ", 2022", "last year", "of the same" is none, "two years ago".
    """
    while reading.word(place) in ("of", "in", ",", "the", "."):
        place += 1
    word, following = reading.word(place), reading.word(place + 1)
    if _YEAR.fullmatch(word):
        return int(word), place + 1
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
    """What comes every year, in the year that is told or chosen."""
    told = None if modifier else year_told(reading, after)
    if told is not None:
        return Period(of(told[0]), told[1], grain, "date" if grain == "day" else "period")
    span = yearly(of, choice(reading, modifier), reading.now)
    return Period(span, after, grain, "relative" if modifier else "period", year_told=bool(modifier))


def by_name(reading: Reading, place: int, modifier: str = "") -> Period | None:
    """A holiday, month, season, weekday or date by its name; `modifier` is last, this or next, said before it."""
    word = reading.word(place)
    return (
        _holiday(reading, place, modifier)
        or (_month(reading, place, modifier) if word in MONTHS else None)
        or (_season(reading, place, modifier) if word in SEASONS else None)
        or (_weekday(reading, place, modifier) if word in WEEKDAYS else None)
        or (None if modifier else _numbered(reading, place))
    )


def _holiday(reading: Reading, place: int, modifier: str) -> Period | None:
    for name in sorted(
        HOLIDAY_BEGINNINGS.get(reading.word(place).removesuffix("'s"), ()), key=len, reverse=True
    ) or (sorted(HOLIDAY_BEGINNINGS.get(reading.word(place), ()), key=len, reverse=True)):
        said = tuple(reading.words[place : place + len(name)])
        if said[:-1] == name[:-1] and said[-1:] and said[-1].removesuffix("'s") == name[-1].removesuffix("'s"):
            if name == ("may", "day") and not reading.capital(place):
                continue
            return of_year(reading, place + len(name), partial(holiday, name), "day", modifier)
    led = reading.word(place - 2) in ("over", "during", "for", "before", "after", "since")
    if led and reading.word(place - 1) == "the" and reading.word(place) == "holidays":
        return of_year(reading, place + 1, _holidays, "holidays", modifier)
    return None


def _holidays(year: int) -> Span:
    return Span(datetime(year, 12, 20), datetime(year + 1, 1, 3))


def _month(reading: Reading, place: int, modifier: str) -> Period | None:
    word, month, after = reading.word(place), MONTHS[reading.word(place)], place + 1
    if reading.word(after) == "." and len(word) <= 4:
        after += 1
    if (dated := _day_of_month(reading, after, month)) is not None and (not modifier or not dated.year_told):
        return dated
    told = None if modifier else year_told(reading, after)
    of = partial(months, first=month, count=1)
    if told is not None:
        return Period(of(told[0]), told[1], "month", "period")
    if word in reading.names:
        return None
    if not modifier and not reading.led(place):
        return None
    if (
        word in _DOUBTFUL
        and not reading.capital(place)
        and reading.word(place - 1) not in ("in", "since", "until", "during")
    ):
        return None
    if word in ("mar", "sat", "sun", "mon", "wed", "dec", "jan") and not reading.capital(place):
        return None
    return of_year(reading, place + 1, of, "month", modifier)


def _day_of_month(reading: Reading, place: int, month: int) -> Period | None:
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


def _season(reading: Reading, place: int, modifier: str) -> Period | None:
    word = reading.word(place)
    of = partial(_season_of, SEASONS[word], reading.south)
    if (winter := re.fullmatch(r"(\d{4})[-/]\d{2,4}", reading.word(place + 1))) is not None:
        return Period(of(int(winter[1])), place + 2, "season", "period")
    if not modifier and year_told(reading, place + 1) is None:
        before = reading.word(place - 1)
        led = reading.word(place - 2) in (
            "in",
            "during",
            "over",
            "for",
            "since",
            "before",
            "after",
            "of",
            "until",
            "by",
        )
        if not (before == "the" and led) and before not in (
            "in",
            "during",
            "since",
            "until",
            "early",
            "mid",
            "late",
            "-",
        ):
            return None
    return of_year(reading, place + 1, of, "season", modifier)


def _season_of(month: int, south: bool, year: int) -> Span:
    return season(month, year, south=south)


def _weekday(reading: Reading, place: int, modifier: str) -> Period | None:
    word, weekday = reading.word(place), WEEKDAYS[reading.word(place)]
    if word in reading.names or (len(word) < 6 and not reading.capital(place)):
        return None
    if not modifier and not _is_a_day(reading, place):
        return None
    if not modifier and (dated := _dated(reading, place + 1)) is not None:
        return dated
    today = day_of(reading.now)
    back = (today.weekday() - weekday) % 7
    match choice(reading, modifier):
        case "last":
            day = today - DAY * (back or 7)
        case "next":
            day = today - DAY * back + WEEK
        case "this":
            day = today + DAY * (weekday - today.weekday())
        case "ahead":
            day = today + DAY * (-back % 7)
        case _:
            day = today - DAY * back
    after = place + 2 if reading.word(place + 1) == "." and len(word) < 6 else place + 1
    return Period(Span(day, day + DAY), after, "day", "relative", year_told=bool(modifier))


def _is_a_day(reading: Reading, place: int) -> bool:
    """Not "every Friday", nor a Friday in the middle of something else's name."""
    if reading.word(place - 1) in ("every", "each"):
        return False
    ends = place + 1 >= len(reading.words) or reading.word(place + 1) in (*PARTS, ",", "?", "!", ".")
    return place == 0 or ends or reading.led(place)


def _dated(reading: Reading, place: int) -> Period | None:
    """The date that a weekday stands before: "Friday, 13 October 2023"."""
    while reading.word(place) in (",", "the"):
        place += 1
    found = _numbered(reading, place) or (_month(reading, place, "") if reading.word(place) in MONTHS else None)
    return found if found is not None and found.grain == "day" else None


def _numbered(reading: Reading, place: int) -> Period | None:
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
    if _YEAR.fullmatch(word):
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


def nth(reading: Reading, place: int) -> Period | None:
    """ "first week of May", "last Friday in June 2022", "second half of 2021", "third quarter"."""
    count = ORDINALS.get(reading.word(place))
    if count is None and (match := re.fullmatch(r"([1-5])(?:st|nd|rd|th)", reading.word(place))):
        count = int(match[1])
    if count is None:
        return None
    unit, after = reading.word(place + 1), place + 2
    if unit == "quarter" and 1 <= count <= 4 and (after == len(reading.words) or year_told(reading, after)):
        return of_year(reading, after, partial(months, first=count * 3 - 2, count=3), "quarter")
    if reading.word(after) not in ("of", "in"):
        return None
    whole = _whole(reading, after + 1)
    if whole is None:
        return None
    span, grain = whole.span, "day"
    if unit in WEEKDAYS:
        start = nth_weekday(span, WEEKDAYS[unit], count)
        part = Span(start, start + DAY)
    elif unit == "weekend":
        start = nth_weekday(span, 5, count)
        part, grain = Span(start, start + 2 * DAY), "weekend"
    elif unit == "week":
        start = span.start + WEEK * (count - 1) if count > 0 else span.end - WEEK
        part, grain = Span(start, start + WEEK), "week"
    elif unit == "day":
        start = span.start + DAY * (count - 1) if count > 0 else span.end - DAY
        part = Span(start, start + DAY)
    elif unit == "half" and count in (1, 2, -1):
        middle = span.start + (span.end - span.start) / 2
        middle = shifted(span.start, "month", 6) if whole.grain == "year" else day_of(middle)
        part, grain = (Span(span.start, middle) if count == 1 else Span(middle, span.end)), "half"
    else:
        return None
    return whole._replace(span=part, grain=grain) if part.start < span.end else None


def _whole(reading: Reading, place: int) -> Period | None:
    """What a part is of: a month, season, year, or the last, this or next one of them."""
    if reading.word(place) == "the":
        place += 1
    word, following = reading.word(place), reading.word(place + 1)
    for chosen, count in ((LAST, -1), (THIS, 0), (NEXT, 1)):
        if word in chosen or (count == 0 and word in ("month", "year", "quarter", "decade", "week")):
            unit = following if word in chosen else word
            unit, after = unit.removesuffix("'s"), place + (2 if word in chosen else 1)
            if unit in ("month", "year", "quarter", "decade", "week"):
                span = unit_of(shifted(reading.now, unit, count), unit)
                return Period(span, after, unit, "relative")
            if word in chosen:
                return by_name(reading, place + 1, word)
    return by_name(reading, place)


def whole(reading: Reading, place: int) -> Period | None:
    """See `_whole`."""
    return _whole(reading, place)
