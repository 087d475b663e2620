"""Recurring periods: which May, Friday or holiday is meant, by its year, a word before it, or the tense."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from orion_recall.when.calendar import Span, yearly
from orion_recall.when.reading import Period, Reading, duration
from orion_recall.when.vocabulary import LAST, NEXT, THIS

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
