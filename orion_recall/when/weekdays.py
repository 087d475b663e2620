"""Weekdays and days of a month by number, as a statement gives them: every Friday, Sunday the 20th, the 19th."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from orion_recall.when.calendar import DAY, WEEK, Span, day_of, moved, shifted
from orion_recall.when.direction import Direction, direction
from orion_recall.when.reading import Period, Reading
from orion_recall.when.vocabulary import (
    DAY_WORDS,
    LAST,
    MODIFIERS,
    MONTHS,
    NEXT,
    NUMBERS,
    PARTS,
    RANGING,
    REPEATED_PARTS,
    THIS,
    VAGUE,
    WEEKDAYS,
)

_EVERY: Final = frozenset(("every", "each"))
_BETWEEN: Final = frozenset(("other", "second", "single"))
_PLURALS: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 5}
_NAMES: Final = {**WEEKDAYS, **_PLURALS}
_GROUPS: Final = {
    **dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("weekend", "weekends"), (5, 6)),
}
_LEADS: Final = frozenset(("at", "on"))
_NOT_BEFORE: Final = NUMBERS.keys() | VAGUE.keys() | MODIFIERS | {"all", "many"}
_JOINED: Final = frozenset(("and", "or", "&", ",", "the"))


class Told(NamedTuple):
    """A time in local wall-clock time, with the places of its words in the sentence.

    `grain` is the unit it is named in; `none`: its words name no time.
    """

    start: datetime
    end: datetime
    first: int
    after: int
    grain: str
    absolute: bool = True
    weekly: bool = False


class _Weekly(NamedTuple):
    """Weekdays that come every week, Monday is 0; the part of the day, if one is named; the place after them."""

    weekdays: tuple[int, ...]
    part: str | None
    after: int


def every_week(read: Reading, place: int) -> list[Told]:
    """Weekdays that come every week, each from the day of saying on; nothing of those that are over."""
    if (found := _weekly_weekdays(read, place)) is None:
        return []
    if direction(read.words, place, found.after) == "past":
        return [Told(read.now, read.now, place, found.after, "none", absolute=False)]
    today = day_of(read.now)
    days = [today + DAY * ((weekday - today.weekday()) % 7) for weekday in found.weekdays]
    if found.part is None:
        return [Told(day, day + DAY, place, found.after, "day", absolute=False, weekly=True) for day in days]
    start, end = (timedelta(hours=hour) for hour in PARTS[found.part])
    return [Told(day + start, day + end, place, found.after, "part", absolute=False, weekly=True) for day in days]


def _weekly_weekdays(read: Reading, place: int) -> _Weekly | None:
    word, at = read.word(place), place
    if word in _EVERY:
        at += 2 if read.word(place + 1) in _BETWEEN else 1
        if read.word(at) == "week" and read.word(at + 1) == "on":
            at += 2
        if (days := _GROUPS.get(read.word(at))) is not None:
            return _with_part(read, days, at + 1)
        names = _NAMES
    elif read.word(place - 1) in _NOT_BEFORE or read.word(place - 1).isdecimal():
        return None
    elif word in _GROUPS:
        is_repeated = read.word(place + 1) in REPEATED_PARTS or (word[-1] == "s" and read.word(place - 1) in _LEADS)
        return _with_part(read, _GROUPS[word], place + 1) if is_repeated else None
    elif word in _PLURALS:
        names = _PLURALS
    elif word in WEEKDAYS and (ends := _listed(read, place, WEEKDAYS)) and read.word(ends[1]) in REPEATED_PARTS:
        return _with_part(read, *ends)
    else:
        return None
    found, after = _listed(read, at, names)
    if not found:
        return None
    return _with_part(read, found, after)


def _listed(read: Reading, place: int, names: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
    """The weekdays that are listed from there on, each once, and the place after them."""
    found: list[int] = []
    at = after = place
    while (weekday := names.get(read.word(at))) is not None and len(found) < 7:
        found.append(weekday)
        after = at + 1
        at = after
        while read.word(at) in _JOINED:
            at += 1
    return tuple(dict.fromkeys(found)), after


def _with_part(read: Reading, weekdays: tuple[int, ...], after: int) -> _Weekly:
    """The weekdays with the part of the day that stands behind them: "every Friday morning"."""
    word = read.word(after)
    part = word.removesuffix("s") if word in REPEATED_PARTS else word
    return _Weekly(weekdays, part, after + 1) if part in PARTS else _Weekly(weekdays, None, after)


_ORDINAL: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
# "Tuesday 22": counts only where the 22nd is a Tuesday.
_BARE: Final = re.compile(r"([12]?\d|3[01])")
_BEFORE: Final = frozenset(
    """on by until till since from for to before after through and or between is was it's moved keep
    , - –""".split()
)
# "The 19th is fine", but "the 19th century".
_AFTER: Final = frozenset(
    """and or at to until till through - – , . ; ! ? in from with for so but instead if because we i is was
    works please then when free the""".split()
) | {""}
_BEFORE_A_DAY: Final = ("on", "by", "until", "till", "from", "since")
_MOST_LISTED: Final = 4
_IS: Final = frozenset("is are isn't aren't".split())
_BE_NEAR: Final = 3


def weekday_in(read: Reading, place: int) -> int | None:
    """The weekday that a period which begins there is named by; "last", "this" and "next" may stand before it."""
    for at in (place, place + 1, place + 2):
        word = read.word(at)
        if word in WEEKDAYS:
            return WEEKDAYS[word]
        if word not in THIS | LAST | NEXT and word != "the":
            return None
    return None


def moved_weekday(read: Reading, place: int, one: Period, weekday: int, way: Direction | None) -> Period:
    """The weekday before or after the day of saying.

    That day itself is called "today", but for what is said to be then, or with no verb: "Dinner is on Monday".
    """
    first = place
    while read.word(place) == "the":
        place += 1
    said, today = read.word(place), day_of(read.now)
    if said in LAST or (said in THIS and read.word(place + 1) in LAST):
        return one
    ahead, back = (weekday - today.weekday()) % 7, (today.weekday() - weekday) % 7
    if said == "next":  # that of the next week: the first one is called "this Friday"
        day = today + DAY * (7 - today.weekday() + weekday)
    elif said in NEXT or (said in THIS and read.word(place + 1) in NEXT):
        day = today + DAY * (ahead or 7)
    elif said in THIS:
        day = today - DAY * back if way == "past" else today + DAY * ahead
    else:
        again = 0 if _is_then(read, first, way) else 7
        day = today - DAY * (back or 7) if way == "past" else today + DAY * (ahead or again)
        if moved(one.span, day - day_of(one.span.start)).end <= read.now and way != "past":
            day += WEEK  # "Monday morning", said on a Monday at noon
    shift = day - day_of(one.span.start)
    return one._replace(span=moved(one.span, shift))


def _is_then(read: Reading, place: int, way: Direction | None) -> bool:
    """Whether what stands before a weekday says that something is then, or has no verb at all."""
    near = read.words[max(0, place - _BE_NEAR) : place]
    return way is None or any(word in _IS or word.endswith("'s") for word in near)


def of_weekday(choices: tuple[Period, Period], weekday: int) -> Period | None:
    """The one of two yearly days that is that weekday; None if neither or both are."""
    found = [one for one in choices if one.span.start.weekday() == weekday]
    return found[0] if len(found) == 1 else None


def weekday_and_number(read: Reading, place: int, way: Direction | None) -> Told | None:
    """ "Sunday the 20th": the nearest 20th that is a Sunday, else the 20th."""
    start = place + 1 if read.word(place) == "the" else place
    if (weekday := WEEKDAYS.get(read.word(start))) is None:
        return None
    at = start + 1
    while read.word(at) in (",", "the"):
        at += 1
    match = _ORDINAL.fullmatch(read.word(at)) or _BARE.fullmatch(read.word(at))
    if match is None or read.word(at + 1) == "of" or read.word(at + 1) in MONTHS:
        return None
    is_hours = read.word(at + 1) in (*RANGING, ".", ":", "-") and read.word(at + 2).isdecimal()
    if match.re is _BARE and is_hours:
        return None  # "Thursday, 8 to 2"
    days = [*_numbered_days(read.now, int(match[1]))]
    fitting = [day for day in days if day.weekday() == weekday]
    if not fitting and match.re is _ORDINAL:
        fitting = days  # one of the two is told wrong
    day = _chosen(fitting, read.now, way)
    return None if day is None else Told(day, day + DAY, place, at + 1, "day", absolute=False)


def days_alone(read: Reading, place: int, context: Span | None) -> list[Told]:
    """ "on the 19th", "the 19th and 20th", "from the 23rd to the 27th": days of the month that is meant.

    `context` is the time that was told before them: after "Christmas" the 23rd is of December.
    """
    numbers, ranging = _numbers(read, place)
    if not numbers or not (len(numbers) > 1 or place == 0 or read.word(place - 1) in _BEFORE):
        return []
    after = numbers[-1][1]
    if read.word(after) not in _AFTER:
        return []
    base = context.start - WEEK if context is not None and context.start > read.now else read.now
    way = direction(read.words, place, after)
    days: list[datetime] = []
    for number, _ in numbers:
        found = _chosen([*_numbered_days(base, number)], days[-1] if days else base, "ahead" if days else way)
        if found is None:
            return []
        days.append(found)
    if ranging and len(days) == 2:
        return [Told(days[0], days[1] + DAY, place, after, "days", absolute=False)]
    return [
        Told(day, day + DAY, place, end, "day", absolute=False) for day, (_, end) in zip(days, numbers, strict=True)
    ]


def _numbers(read: Reading, place: int) -> tuple[list[tuple[int, int]], bool]:
    """The numbers after "the", each with the place after it, and whether they are the ends of a range."""
    numbers: list[tuple[int, int]] = []
    ranging, at = False, place
    while read.word(place) == "the" and len(numbers) < _MOST_LISTED:
        at += 1 if read.word(at) == "the" else 0
        match = _ORDINAL.fullmatch(read.word(at))
        in_words = DAY_WORDS.get(read.word(at), 0) if read.word(place - 1) in _BEFORE_A_DAY else 0
        number = int(match[1]) if match is not None else in_words
        if not 0 < number <= 31:
            break
        numbers.append((number, at + 1))
        joined = read.word(at + 1)
        if joined not in RANGING and joined not in ("and", "or", ","):
            break
        ranging = ranging or joined in RANGING
        at += 2
    return numbers, ranging and len(numbers) == 2


def _numbered_days(now: datetime, number: int) -> Iterator[datetime]:
    """The days of that number in the months around now."""
    first = day_of(now).replace(day=1)
    for months in range(-3, 5):
        start = shifted(first, "month", months)
        day = start + DAY * (number - 1)
        if number and day.month == start.month:
            yield day


def _chosen(days: list[datetime], now: datetime, way: Direction | None) -> datetime | None:
    """Of days in their order the last that has begun, or the first that is not over."""
    today = day_of(now)
    over, coming = [day for day in days if day <= today], [day for day in days if day >= today]
    if way == "past":
        return over[-1] if over else None
    return coming[0] if coming else None
