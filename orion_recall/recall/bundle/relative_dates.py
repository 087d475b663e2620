"""Dates of relative times: "I went there yesterday" is shown as "I went there yesterday [20 November]".

Relative to when the memory was said, since its reader reads it at another time. Only a time with one meaning gets
its date: to any other the reader has the day on which it was said, at the beginning of the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from orion_recall.recall.bundle.unambiguous_times import (
    agreed_weekday,
    has_one_meaning,
    in_small_hours,
    is_ahead,
    is_of_one_day,
    stands_free,
    tells_weekday_after,
    weekday_way,
)
from orion_recall.time_values import clock_in
from orion_recall.values import Interval, ToldTime
from orion_recall.when.calendar import shifted
from orion_recall.when.times import times
from orion_recall.when.vocabulary import SEASONS

_NUMBER: Final = r"(?:an?|\d{1,3}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\s+couple\s+of)"
_UNIT: Final = r"(?:day|night|week|fortnight|month|year)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PART: Final = r"(?:\s+(?:morning|afternoon|evening|night))?"
_ORDINAL: Final = r"(?:first|second|third|(?:twenty|thirty)[- ]\w+|\w+th\b)"
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
# Of folded text; the first letters are looked at first: a quarter of the time.
_RELATIVE: Final = re.compile(
    rf"""\b(?=[adefilmnstwy\d])(?:
      (?P<day>(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow)
        |yesterday{_PART}|tomorrow{_PART}|tonight|last\s+night)
      |(?P<beside>last|next|this(?:\s+(?:coming|past))?)\s+
        (?:(?P<whole>week|month|year)|(?P<weekend>weekend)|(?P<season>spring|summer|autumn|fall|winter)
          |(?P<named>{_WEEKDAY}){_PART})
      |the\s+(?P<beyond>week|weekend|month|year)\s+(?P<beyond_which>before\s+last|after\s+next)
      |(?P<ago>{_NUMBER})\s+(?P<ago_unit>{_UNIT})s?\s+(?P<ago_way>ago|from\s+now(?!\s+on))
      |(?P<weekday>{_WEEKDAY}){_PART}(?!,?\s+(?:the\s+)?(?:\d|{_ORDINAL})|,?\s+{_MONTH})
      |in\s+(?P<count>{_NUMBER})\s+(?P<unit>{_UNIT})s?
    )(?![\w'’-])""",
    re.VERBOSE,
)
_HINTS: Final = ("day", "tomorrow", "night", "week", "month", "year", "last ", "next ")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SATURDAY: Final = 5
_DAY_S: Final = 86_400.0
_COUNTS: Final = {
    word: count
    for count, words in enumerate(
        (
            ("a", "an"),
            ("two", "a couple of"),
            *((word,) for word in "three four five six seven eight nine".split()),
        ),
        1,
    )
    for word in words
} | {"ten": 10, "eleven": 11, "twelve": 12}
# What is further away is not told by its days.
_LONGEST_NAMED: Final = timedelta(days=45)
_WHOLE_YEAR: Final = timedelta(days=360)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeDates:
    """The dates of relative times, in the asker's zone; the year is told where it is not the year of `now`."""

    zone: tzinfo
    now: float

    def resolved(self, text: str, said: float | None, told: Sequence[ToldTime] = ()) -> str:
        """The text with the date behind each relative time, once for each.

        `said` is the memory's own time. `told` are the times that its text tells: they know which Tuesday is meant.
        """
        if said is None or not any(map((folded := _folded(text)).__contains__, _HINTS)):
            return text
        try:
            clock = clock_in(self.zone, said).replace(tzinfo=None)
            year = datetime.fromtimestamp(self.now, self.zone).year
        except (OverflowError, ValueError, OSError):
            return text  # beyond the calendar
        dated: set[str] = set()
        parts: list[str] = []
        done = 0
        for match in _RELATIVE.finditer(folded):
            words = match[0]
            if words in dated:
                continue
            try:
                date = self._date(match, text, clock, told, year)
            except (ValueError, OverflowError):  # beyond the years that a calendar has
                date = None
            if date is None:
                continue
            dated.add(words)
            parts += [text[done : match.end()], f" [{date}]"]
            done = match.end()
        return "".join([*parts, text[done:]]) if parts else text

    def _date(
        self, match: re.Match[str], text: str, clock: datetime, told: Sequence[ToldTime], year: int
    ) -> str | None:
        """The date of a time that has one meaning; None for any other."""
        start, end = match.span()
        if not has_one_meaning(text, start, end):
            return None
        if match["day"]:
            is_sure = is_of_one_day(text, start, end) and not in_small_hours(clock)
            return _date(match[0], clock, self.zone, year) if is_sure else None
        if match["beside"]:
            is_sure = stands_free(text, start, end) and _is_agreed(match, clock)
            return _date(match[0], clock, self.zone, year) if is_sure else None
        if match["beyond"]:
            is_sure = match["beyond"] != "weekend" or (clock.weekday() >= _SATURDAY) == (
                match["beyond_which"].startswith("after")
            )
            return _date(match[0], clock, self.zone, year) if is_sure else None
        if match["weekday"]:
            return _weekday_date(match, text, clock, told, year)
        if match["unit"]:
            return _counted(match["count"], match["unit"], clock, year) if is_ahead(text, start, end) else None
        if tells_weekday_after(text, end):
            return None
        return _counted(match["ago"], match["ago_unit"], clock, year, back=match["ago_way"] == "ago")


def _folded(text: str) -> str:
    """The text in lower case, of the same length: places in it must stay places of the text."""
    folded = text.lower()
    if len(folded) != len(text):  # İ and its like
        folded = "".join(one if len(one.lower()) > 1 else one.lower() for one in text)
    return folded


@lru_cache(maxsize=512)
def _date(words: str, clock: datetime, zone: tzinfo, year: int) -> str | None:
    """The dates that the words name. `clock` is local time without its zone: with it two zones share an entry."""
    found = times(words, clock.replace(tzinfo=zone)).intervals
    return _named(found[0], zone, year) if len(found) == 1 else None


def _is_agreed(match: re.Match[str], clock: datetime) -> bool:
    """Whether "last", "next" or "this" one of it is the same to everybody, as it is said at that time."""
    word, is_weekend = " ".join(match["beside"].split()), clock.weekday() >= _SATURDAY
    if match["whole"]:
        return word in ("last", "next")
    if match["weekend"]:
        return clock.weekday() > 1 if word == "this" else word == "last" or is_weekend == (word == "next")
    if match["season"]:
        return _is_agreed_season(match["season"], word, clock)
    weekday = _WEEKDAYS.index(match["named"])
    return weekday != clock.weekday() if " " in word else agreed_weekday(weekday, clock, word)


def _is_agreed_season(name: str, word: str, clock: datetime) -> bool:
    """Whether this year's leaves no doubt: "last summer" may be this year's once that is over."""
    begins = SEASONS[name]
    has_begun, is_over = clock.month >= begins, clock.month >= begins + 3
    return not is_over if word == "last" else has_begun if word == "next" else False


def _weekday_date(
    match: re.Match[str], text: str, clock: datetime, told: Sequence[ToldTime], year: int
) -> str | None:
    """The date of a bare weekday, where the clause says whether it is over, and the told times say the same.

    Told times are in UTC.
    """
    weekday = _WEEKDAYS.index(match["weekday"])
    way = weekday_way(text, *match.span(), weekday, clock)
    if way is None:
        return None
    back = (clock.weekday() - weekday) % 7
    day = clock.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(
        days=-back if way == "past" else 7 - back
    )
    start = day.replace(tzinfo=UTC).timestamp()
    once = [one for one in told if not one.weekly and _weekday(one.since) == weekday]
    if {one.since // _DAY_S * _DAY_S for one in once if one.until - one.since <= _DAY_S} != {start}:
        return None
    return _named(Interval(start, start + _DAY_S, "relative", match[0]), UTC, year)


def _counted(count: str, unit: str, clock: datetime, year: int, *, back: bool = False) -> str | None:
    """ "6 November" for so many days away; "about 23 October" or "about March" for longer ones."""
    said = " ".join(count.split())
    number = _COUNTS.get(said) or int(said)
    if unit in ("day", "night"):
        if said == "a couple of":
            return None
        return _of_day(shifted(clock, "day", -number if back else number), year)
    day = shifted(clock, unit, -number if back else number)
    if unit == "year":
        return f"about {day.year}"
    return f"about {_of_day(day, year, is_month=unit == 'month' and number > 1)}"


def _of_day(day: datetime, year: int, *, is_month: bool = False) -> str:
    of_year = "" if day.year == year else f" {day.year}"
    return f"{day:%B}{of_year}" if is_month else f"{day.day} {day:%B}{of_year}"


def _weekday(moment: float) -> int:
    """Monday is 0; in UTC, where the first of January 1970 was a Thursday."""
    return int(moment // _DAY_S + 3) % 7


def _named(interval: Interval, zone: tzinfo, year: int) -> str | None:
    """ "20 November", "16-22 November", "November", "2025"; None for an interval without an end, or of hours."""
    if interval.start is None or interval.end is None or interval.end - interval.start < 3600 * 6:
        return None
    first = datetime.fromtimestamp(interval.start, zone)
    last = datetime.fromtimestamp(interval.end - 1, zone)
    length = last - first
    if length > _WHOLE_YEAR:
        return str(first.year) if first.year == last.year else None
    if length < timedelta(days=1):  # a night is of the day on which it begins
        last = first
    of_year = "" if first.year == year == last.year else f" {last.year}"
    if first.date() == last.date():
        return f"{first.day} {first:%B}{of_year}"
    since = f" {first.year}" if first.year != last.year else ""
    if length > _LONGEST_NAMED:
        return f"{first:%B}{since} to {last:%B}{of_year}"
    if first.month != last.month:
        return f"{first.day} {first:%B}{since} to {last.day} {last:%B}{of_year}"
    if first.day == 1 and (last + timedelta(seconds=1)).day == 1:
        return f"{last:%B}{of_year}"
    return f"{first.day}-{last.day} {last:%B}{of_year}"
