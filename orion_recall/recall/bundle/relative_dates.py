"""Dates of relative times: "I went there yesterday" is shown as "I went there yesterday [20 November]".

Relative to when the memory was said, since its reader reads it at another time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from orion_recall.values import Interval, ToldTime
from orion_recall.when.times import times

_NUMBER: Final = (
    r"(?:an?|\d{1,3}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\s+couple\s+of|a\s+few)"
)
_UNIT: Final = r"(?:day|night|week|weekend|fortnight|month|year)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PART: Final = r"(?:\s+(?:morning|afternoon|evening|night))?"
_ORDINAL: Final = r"(?:first|second|third|(?:twenty|thirty)[- ]\w+|\w+th\b)"
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
# Each says by itself in which direction it goes, but for the last two: those are looked up among the told times. Of
# folded text, and the first letters are looked at first: a quarter of the time.
_RELATIVE: Final = re.compile(
    rf"""\b(?=[adefilmnstwy\d])(?:
      (?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow)
      |yesterday{_PART}|tomorrow{_PART}|tonight|last\s+night
      |(?:last|next|this\s+coming|this\s+past)\s+
        (?:week|weekend|month|year|spring|summer|autumn|fall|winter|{_WEEKDAY}{_PART})
      |this\s+(?:weekend|{_WEEKDAY}{_PART})
      |the\s+(?:week|weekend|month|year)\s+(?:before\s+last|after\s+next)
      |{_NUMBER}\s+{_UNIT}s?\s+(?:ago|from\s+now(?!\s+on))
      |(?<!every\s)(?<!each\s)(?<!other\s)(?P<weekday>{_WEEKDAY}){_PART}(?!,?\s+(?:the\s+)?(?:\d|{_ORDINAL})|,?\s+{_MONTH})
      |in\s+(?P<count>{_NUMBER})\s+(?P<unit>{_UNIT})s?
    )(?![\w'’-])""",
    re.VERBOSE,
)
_HINTS: Final = ("day", "tomorrow", "night", "week", "month", "year", "last ", "next ")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_S: Final = 86_400.0
_UNIT_DAYS: Final = {"day": 1, "night": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30.4, "year": 365.25}
_COUNTS: Final = {
    word: count
    for count, words in enumerate(
        (("a", "an"), ("two", "a couple of"), ("three", "a few"), *((word,) for word in "four five six".split())), 1
    )
    for word in words
} | {word: count for count, word in enumerate("seven eight nine ten eleven twelve".split(), 7)}
# A told time is meant by "in two weeks" if it begins within so many of the units of then.
_NEAR: Final = 0.6
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
            clock = datetime.fromtimestamp(said, self.zone).replace(tzinfo=None)
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
            if match["weekday"] or match["unit"]:
                date = _told_date(match, said, told, year)
            else:
                date = _date(words, clock, self.zone, year)
            if date is None:
                continue
            dated.add(words)
            parts += [text[done : match.end()], f" [{date}]"]
            done = match.end()
        return "".join([*parts, text[done:]]) if parts else text


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


def _told_date(match: re.Match[str], said: float, told: Sequence[ToldTime], year: int) -> str | None:
    """The date of a bare weekday, or of "in two weeks", where one told time is meant; told times are in UTC."""
    once = [one for one in told if not one.weekly]
    if match["weekday"]:
        day = _WEEKDAYS.index(match["weekday"])
        short = [one for one in once if one.until - one.since <= _DAY_S]
        starts = {one.since // _DAY_S * _DAY_S for one in short if _weekday(one.since) == day}
        if len(starts) != 1:
            return None
        (start,) = starts
        return _named(Interval(start, start + _DAY_S, "relative", match[0]), UTC, year)
    unit = _UNIT_DAYS[match["unit"]] * _DAY_S
    count = " ".join(match["count"].split())
    then = said + (_COUNTS.get(count) or int(count)) * unit
    near = min(once, key=lambda one: abs(one.since - then), default=None)
    if near is None or abs(near.since - then) > max(_DAY_S, _NEAR * unit):
        return None
    return _named(Interval(near.since, near.until, "relative", match[0]), UTC, year)


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
