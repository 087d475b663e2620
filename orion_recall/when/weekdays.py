"""Weekdays and days of a month by number, as a statement gives them: every Friday, Sunday the 20th, the 19th."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from orion_recall.when.calendar import DAY, WEEK, Span, day_of, whole_days
from orion_recall.when.dates import ORDINAL_DAY, nearest, numbered_days
from orion_recall.when.direction import Direction, direction
from orion_recall.when.reading import Period, Reading
from orion_recall.when.vocabulary import (
    DAY_WORDS,
    MODIFIERS,
    MONTHS,
    NUMBERS,
    PARTS,
    RANGING,
    REPEATED_PARTS,
    VAGUE,
    WEEKDAYS,
)

_PLURALS: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 5}
_NAMES: Final = {**WEEKDAYS, **_PLURALS}
_GROUPS: Final = {
    **dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("weekend", "weekends"), (5, 6)),
}
_NOT_BEFORE: Final = NUMBERS.keys() | VAGUE.keys() | MODIFIERS.keys() | {"all", "many"}
_JOINED: Final = ("and", "or", "&", ",", "the")


class Told(NamedTuple):
    """A time in local wall-clock time, with the places of its words in the sentence.

    `grain` is the unit it is named in; `none`: its words name no time.
    """

    span: Span
    first: int
    after: int
    grain: str
    absolute: bool = False
    weekly: bool = False


def every_week(read: Reading, place: int) -> list[Told]:
    """Weekdays that come every week, each from the day of saying on; nothing of those that are over."""
    weekdays, after = _weekly(read, place)
    if not weekdays:
        return []
    word = read.word(after)
    part = word.removesuffix("s") if word in REPEATED_PARTS else word
    after += part in PARTS
    if direction(read.words, place, after) == "past":
        return [Told(Span(read.now, read.now), place, after, "none")]
    first, last = (timedelta(hours=hour) for hour in PARTS.get(part, (0, 24)))
    today, grain = day_of(read.now), "part" if part in PARTS else "day"
    days = (today + DAY * ((weekday - today.weekday()) % 7) for weekday in weekdays)
    return [Told(Span(day + first, day + last), place, after, grain, weekly=True) for day in days]


def _weekly(read: Reading, place: int) -> tuple[Sequence[int], int]:
    """Weekdays that come every week, Monday is 0, and the place after them; none where they do not."""
    word, before = read.word(place), read.word(place - 1)
    if word in ("every", "each"):
        at = place + (2 if read.word(place + 1) in ("other", "second", "single") else 1)
        at += 2 if read.follow(at, "week", "on") else 0
        if (days := _GROUPS.get(read.word(at))) is not None:
            return days, at + 1
        return _listed(read, at, _NAMES)
    if before in _NOT_BEFORE or before.isdecimal():
        return (), place
    if word in _GROUPS:
        is_repeated = read.word(place + 1) in REPEATED_PARTS or (word[-1] == "s" and before in ("at", "on"))
        return (_GROUPS[word] if is_repeated else ()), place + 1
    if word in _PLURALS:
        return _listed(read, place, _PLURALS)
    listed = _listed(read, place, WEEKDAYS)
    return listed if read.word(listed[1]) in REPEATED_PARTS else ((), place)


def _listed(read: Reading, place: int, names: Mapping[str, int]) -> tuple[Sequence[int], int]:
    """The weekdays that are listed from there on, each once, and the place after them."""
    found: dict[int, None] = {}
    at = after = place
    for _ in range(7):
        if (weekday := names.get(read.word(at))) is None:
            break
        found[weekday] = None
        after = at + 1
        at = read.skip(after, *_JOINED)
    return tuple(found), after


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
        if word not in MODIFIERS and word != "the":
            return None
    return None


def moved_weekday(read: Reading, place: int, one: Period, weekday: int, way: Direction | None) -> Period:
    """The weekday before or after the day of saying.

    That day itself is called "today", but for what is said to be then, or with no verb: "Dinner is on Monday".
    """
    first, place = place, read.skip(place, "the")
    said, today = read.word(place), day_of(read.now)
    modifier = MODIFIERS.get(said)
    if modifier == 0:  # "this coming Friday"
        modifier = MODIFIERS.get(read.word(place + 1)) or 0
    if modifier == -1:
        return one
    ahead, back = (weekday - today.weekday()) % 7, (today.weekday() - weekday) % 7
    if said == "next":  # that of the next week: the first one is called "this Friday"
        day = today + DAY * (7 - today.weekday() + weekday)
    elif modifier == 1:
        day = today + DAY * (ahead or 7)
    elif modifier == 0:
        day = today - DAY * back if way == "past" else today + DAY * ahead
    elif way == "past":
        day = today - DAY * (back or 7)
    else:
        near = read.words[max(0, first - _BE_NEAR) : first]
        is_then = way is None or any(word in _IS or word.endswith("'s") for word in near)
        day = today + DAY * (ahead or (0 if is_then else 7))
        if one.span.end + (day - day_of(one.span.start)) <= read.now:
            day += WEEK  # "Monday morning", said on a Monday at noon
    return one._replace(span=one.span.moved(day - day_of(one.span.start)))


def weekday_and_number(read: Reading, place: int, way: Direction | None) -> Told | None:
    """ "Sunday the 20th": the nearest 20th that is a Sunday, else the 20th."""
    start = place + 1 if read.word(place) == "the" else place
    if (weekday := WEEKDAYS.get(read.word(start))) is None:
        return None
    at = read.skip(start + 1, ",", "the")
    following = read.word(at + 1)
    ordinal = ORDINAL_DAY.fullmatch(read.word(at))
    match = ordinal or _BARE.fullmatch(read.word(at))
    if match is None or following == "of" or following in MONTHS:
        return None
    if ordinal is None and following in (*RANGING, ".", ":", "-") and read.word(at + 2).isdecimal():
        return None  # "Thursday, 8 to 2"
    days = numbered_days(read.now, int(match[1]))
    fitting = [day for day in days if day.weekday() == weekday]
    # Of an ordinal number one of the two is told wrong.
    day = nearest(fitting or (days if ordinal else []), read.now, ahead=way != "past")
    return None if day is None else Told(whole_days(day), place, at + 1, "day")


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
    ahead, days = direction(read.words, place, after) != "past", list[datetime]()
    for number, _ in numbers:
        found = nearest(numbered_days(base, number), days[-1] if days else base, ahead=ahead or bool(days))
        if found is None:
            return []
        days.append(found)
    if ranging and len(days) == 2:
        return [Told(Span(days[0], days[1] + DAY), place, after, "days")]
    return [Told(whole_days(day), place, end, "day") for day, (_, end) in zip(days, numbers, strict=True)]


def _numbers(read: Reading, place: int) -> tuple[list[tuple[int, int]], bool]:
    """The numbers after "the", each with the place after it, and whether a range is told by them."""
    numbers: list[tuple[int, int]] = []
    ranging, at = False, place
    while read.word(place) == "the" and len(numbers) < _MOST_LISTED:
        at += read.word(at) == "the"
        match = ORDINAL_DAY.fullmatch(read.word(at))
        in_words = DAY_WORDS.get(read.word(at), 0) if read.word(place - 1) in _BEFORE_A_DAY else 0
        number = int(match[1]) if match is not None else in_words
        if not 0 < number <= 31:
            break
        numbers.append((number, at + 1))
        joined = read.word(at + 1)
        if joined not in (*RANGING, "and", "or", ","):
            break
        ranging = ranging or joined in RANGING
        at += 2
    return numbers, ranging
