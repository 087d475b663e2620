"""Dates of relative times: "I went there yesterday" is shown as "I went there yesterday [20 November]".

Relative to when the memory was said, since its reader reads it at another time. Only a time with one meaning gets
its date: to any other the reader has the day on which it was said, at the beginning of the line.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final

from orion_recall.values import Interval, clock_in
from orion_recall.when.calendar import shifted
from orion_recall.when.times import times

_NUMBER: Final = r"(?:an?|\d{1,3}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\s+couple\s+of)"
_UNIT: Final = r"(?:day|night|week|fortnight|month|year)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PART: Final = r"(?:\s+(?:morning|afternoon|evening|night))?"
# Of folded text; the first letters are looked at first: a quarter of the time.
_RELATIVE: Final = re.compile(
    rf"""\b(?=[adefilmnstwy\d])(?:
      (?P<day>(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow)
        |yesterday{_PART}|tomorrow{_PART}|tonight|last\s+night)
      |(?P<beside>last|next|this(?:\s+(?:coming|past))?)\s+
        (?:(?P<whole>week|month|year)|(?P<weekend>weekend)|(?P<named>{_WEEKDAY}){_PART})
      |(?P<ago>{_NUMBER})\s+(?P<ago_unit>{_UNIT})s?\s+(?P<ago_way>ago|from\s+now(?!\s+on))
    )(?![\w'’-])""",
    re.VERBOSE,
)
# One of them is in whatever `_RELATIVE` finds.
_HINTS: Final = ("day", "tomorrow", "night", "week", "month", "year")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_QUOTED: Final = re.compile(r'"[^"]*"|“[^“”]*”|‘[^‘’]*’(?!\w)|«[^«»]*»')
_REPORTED: Final = re.compile(r"[\w)]:\s[^.!?]*\Z")
_CAPITALS: Final = re.compile(r"\b(?!(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?-i:[A-Z])", re.IGNORECASE)
_OTHER_COUNT: Final = re.compile(r",?\s+(?:never|(?:on\s+)?\w+day\b|tomorrow\b)", re.IGNORECASE)
_COUNTED_FROM: Final = re.compile(r"\b(?:ago|weeks?|fortnight|always|never|every)\s+\Z", re.IGNORECASE)
_NOT_FREE_BEFORE: Final = re.compile(
    r"\b(?:the|an?|my|our|your|his|her|its|their|each|every|other|first|no|one|some|any|that|both|all)\s+\Z",
    re.IGNORECASE,
)
_NOT_FREE_AFTER: Final = re.compile(r"\s+(?:of|before|after|in)\b", re.IGNORECASE)
# What is looked at before a relative time, and how many of a text: each is looked for in all of it.
_NEAR_CHARS, _MOST_TIMES = 400, 64
_SMALL_HOURS: Final = 4
_SATURDAY: Final = 5
_COUNTS: Final = {"a": 1, "a couple of": 2} | {
    word: count
    for count, word in enumerate("an two three four five six seven eight nine ten eleven twelve".split(), 1)
}
# What is further away is not told by its days.
_LONGEST_NAMED: Final = timedelta(days=45)
_WHOLE_YEAR: Final = timedelta(days=360)


def with_dates(text: str, said: float | None, *, zone: tzinfo, now: float) -> str:
    """The text with the date behind each of its first 64 relative times, once for each, in the asker's zone.

    `said` is the memory's own time. The year is told where it is not the year of `now`.
    """
    if said is None or not any(map((folded := _folded(text)).__contains__, _HINTS)):
        return text
    try:
        clock = clock_in(zone, said).replace(tzinfo=None)
        year = datetime.fromtimestamp(now, zone).year
    except (OverflowError, ValueError, OSError):
        return text  # beyond the calendar
    dated: set[str] = set()
    parts: list[str] = []
    done = 0
    for match in islice(_RELATIVE.finditer(folded), _MOST_TIMES):
        if match[0] in dated:
            continue
        try:
            date = _date_of(match, text, clock, zone, year)
        except (ValueError, OverflowError):  # beyond the years that a calendar has
            continue
        if date is not None:
            dated.add(match[0])
            parts += [text[done : match.end()], f" [{date}]"]
            done = match.end()
    return "".join([*parts, text[done:]]) if parts else text


def _date_of(match: re.Match[str], text: str, clock: datetime, zone: tzinfo, year: int) -> str | None:
    start, end = match.span()
    near = max(0, start - _NEAR_CHARS)
    if _is_quoted(text, start, end) or _OTHER_COUNT.match(text, end) is not None:
        return None
    if match["day"]:
        is_sure = _COUNTED_FROM.search(text, near, start) is None and clock.hour >= _SMALL_HOURS
        return _date(match[0], clock, zone, year) if is_sure else None
    if match["beside"]:
        # By itself: not "the last week", "last week of term", "last Friday in May".
        is_free = _NOT_FREE_BEFORE.search(text, near, start) is None and _NOT_FREE_AFTER.match(text, end) is None
        return _date(match[0], clock, zone, year) if is_free and _is_agreed(match, clock) else None
    return _counted(match["ago"], match["ago_unit"], clock, year, back=match["ago_way"] == "ago")


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether it is somebody else's: in a quotation, behind "Nina wrote:", or in capitals like a title.

    A text that is a quotation as a whole is said by its speaker.
    """
    if _REPORTED.search(text, max(0, start - _NEAR_CHARS), start) is not None:
        return True
    if _CAPITALS.search(text, start + 1, end) is not None:
        return text.upper() != text
    return any(
        one.start() < start and end < one.end() and one.group() != text.strip() for one in _QUOTED.finditer(text)
    )


def _folded(text: str) -> str:
    """The text in lower case, of the same length: places in it must stay places of the text."""
    if len(folded := text.lower()) == len(text):
        return folded
    return "".join(one if len(one.lower()) > 1 else one.lower() for one in text)  # İ and its like


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
    weekday, today = _WEEKDAYS.index(match["named"]), clock.weekday()
    if " " in word:
        return weekday != today
    # "Next Friday" is the coming one or that of next week, "last Monday" that of this week or of the one before.
    return weekday >= today if word == "last" else weekday <= today if word == "next" else weekday > today


def _counted(count: str, unit: str, clock: datetime, year: int, *, back: bool = False) -> str | None:
    """ "6 November" for so many days away; "about 23 October" or "about March" for longer ones."""
    said = " ".join(count.split())
    number = _COUNTS.get(said) or int(said)
    if unit in ("day", "night") and said == "a couple of":
        return None
    day = shifted(clock, "day" if unit == "night" else unit, -number if back else number)
    if unit in ("day", "night"):
        return _of_day(day, year)
    return f"about {day.year if unit == 'year' else _of_day(day, year, is_month=unit == 'month' and number > 1)}"


def _of_day(day: datetime, year: int, *, is_month: bool = False) -> str:
    of_year = "" if day.year == year else f" {day.year}"
    return f"{day:%B}{of_year}" if is_month else f"{day.day} {day:%B}{of_year}"


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
