"""The times that a text tells, relative to when it was said: days, longer times, and those that come every week."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from orion_recall.values import TimeMention
from orion_recall.when.calendar import DAY, WEEK, Span, day_of, moved, shifted
from orion_recall.when.clock import Clock, clock_after, clock_before
from orion_recall.when.dates import numbered
from orion_recall.when.direction import Direction, direction, is_over
from orion_recall.when.phrases import period
from orion_recall.when.reading import Period, Reading, reading
from orion_recall.when.vocabulary import (
    DAY_WORDS,
    LAST,
    MODIFIERS,
    MONTHS,
    NEXT,
    NUMBERS,
    PARTS,
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
# "Mondays should be forbidden" is about Mondays, and happens on none.
_SAYS_NO_TIME: Final = frozenset("are is were was should would could can must will feel never suck".split())
_MOVED: Final = frozenset("gone moved switched changed shifted swapped".split())
_JOINED: Final = frozenset(("and", "or", "&", ",", "the"))


class Repeated(NamedTuple):
    """Weekdays that come again and again, Monday is 0; the part of the day, if one is told; the place after them.

    `is_over`: they did, and do no more.
    """

    weekdays: tuple[int, ...]
    part: str | None
    after: int
    is_over: bool = False


def repeated_weekdays(read: Reading, place: int) -> Repeated | None:
    """The weekdays that come again and again from this place on; None where none do."""
    found = _weekdays(read, place)
    if found is None:
        return None
    after = found.after
    # "Has gone to Mondays", "switched to Thursdays": they are what is new.
    is_moved = read.word(place - 1) == "to" and not _MOVED.isdisjoint(read.words[max(0, place - 4) : place])
    is_past = not is_moved and direction(read.words, place, after) == "past"
    over = is_past or is_over(read.words, place, after)
    return found._replace(is_over=over)


def _weekdays(read: Reading, place: int) -> Repeated | None:
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
    elif (
        word in WEEKDAYS
        and (ends := _listed(read, place, WEEKDAYS))
        and (read.word(ends[1]) in REPEATED_PARTS or (_is_pattern(ends[0]) and read.word(ends[1]) not in MODIFIERS))
    ):
        return _with_part(read, *ends)
    else:
        return None
    found, after = _listed(read, at, names)
    if not found or (place == 0 and word in _PLURALS and read.word(after) in _SAYS_NO_TIME):
        return None
    return _with_part(read, found, after)


def _is_pattern(weekdays: Sequence[int]) -> bool:
    """Whether three weekdays or more are listed with a gap: the plan of every week, and no few days in a row."""
    gaps = {(later - earlier) % 7 for earlier, later in pairwise(weekdays)}
    return len(weekdays) > 2 and gaps != {1}


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


def _with_part(read: Reading, weekdays: tuple[int, ...], after: int) -> Repeated:
    """The weekdays with the part of the day that stands behind them: "every Friday morning"."""
    word = read.word(after)
    part = word.removesuffix("s") if word in REPEATED_PARTS else word
    return Repeated(weekdays, part, after + 1) if part in PARTS else Repeated(weekdays, None, after)


_OPEN: Final = frozenset(("since", "until", "till", "by", "before", "after", "from"))
_YEAR_LEADS: Final = frozenset("in since during until till by year early mid late".split())
_FIGURES: Final = re.compile(r"\d{1,2}[.-]\d{1,2}[.-](\d{1,2})")
_LEADS_A_DATE: Final = frozenset("on by until till since from dated".split())
# A year of two digits is of these years around now.
_SHORT_YEARS: Final = 6
_ABSOLUTE: Final = frozenset(("date", "period"))
# How much of the future a time that is open at its end is told for.
_OPEN_END: Final = timedelta(days=7)
_LONGEST_RANGE: Final = timedelta(days=40 * 366)
_LONGEST_RUNNING: Final = timedelta(days=120)
_MOVES: Final = frozenset(
    "moved moves move moving shifted shift pushed postponed rescheduled delayed changed switched brought".split()
)
# "The invoice of 14 November" may be of the last one, whatever the verb.
_OF: Final = ("of", "dated")
# "Monday 21 September to Rome, back on Wednesday": two days later.
_BACK: Final = frozenset("back return returns returning".split())
_WITH_CONTEXT: Final = ("day", "month", "weekend")


def in_sentence(read: Reading, context: Span | None) -> Iterator[Found]:
    place = 0
    while place < len(read.words):
        try:
            found = _at(read, place, context)
        except (ValueError, OverflowError):  # beyond the years that a calendar has
            found = []
        if not found:
            place += 1
            continue
        yield from found
        last = found[-1]
        if last.grain in _WITH_CONTEXT:
            context = Span(last.start, last.end)
        place = max(last.after, place + 1)


def _at(read: Reading, place: int, context: Span | None) -> list[Found]:
    """The times that the words from there on tell: one, or several that are listed."""
    if (weekly := repeated_weekdays(read, place)) is not None:
        return _weekly(read, place, weekly)
    word = read.word(place)
    if word in _OPEN and (opened := _opened(read, place, context)) is not None:
        return [opened]
    if word == "the" and (alone := days_alone(read, place, context)):
        return alone
    if (listed := _two_days(read, place)) is not None:
        return listed
    one = _single(read, place, context)
    if one is None:
        return []
    if read.word(one.after) in RANGING and one.grain in ("day", "month", "year", "part"):
        both = _ranged(read, place, one, context)
        if both is not None:
            return [both]
    return [one]


def _two_days(read: Reading, place: int) -> list[Found] | None:
    """ "3 and 4 December": the second says the month of both."""
    if not read.word(place).isdecimal() or read.word(place + 1) not in ("and", "&", "or"):
        return None
    last = _single(read, place + 2, None)
    number = int(read.word(place)[:4])
    if last is None or last.grain != "day" or last.after < place + 4 or not 0 < number < last.start.day:
        return None
    day = last.start.replace(day=number)
    return [Found(day, day + DAY, place, place + 1, "day", last.absolute), last]


def _single(read: Reading, place: int, context: Span | None) -> Found | None:
    """One period, read in the direction of its clause."""
    is_in = read.word(place) == "in"
    past = period(read.at(read.now, future=False), place)
    if past is None and not is_in and weekday_in(read, place) is None:
        return None  # most words are no time, and to know the direction of a clause takes all of its words
    way = _way(read, place)
    if is_in and way != "past":
        if (counted := period(read.at(read.now, future=True), place + 1)) is not None and _is_counted(counted):
            return _as_found(counted, place)
        return None
    if (one := weekday_and_number(read, place, way)) is not None:
        return one
    if past is None or not _is_sure(read, place, past):
        return None
    if past.year_told and past.kind != "relative":
        return _as_found(past, place)
    weekday = weekday_in(read, place)
    if weekday is not None and past.grain in ("day", "part") and past.kind == "relative":
        if (
            context is not None
            and context.start > read.now
            and not _BACK.isdisjoint(read.words[max(0, place - 4) : place])
        ):
            later = read.at(context.start, future=True)
            return _as_found(moved_weekday(later, place, past, weekday, "ahead"), place)
        return _as_found(moved_weekday(read, place, past, weekday, way), place)
    if past.year_told:
        return _as_found(past, place)
    ahead = period(read.at(read.now, future=True), place)
    if ahead is None:
        return _as_found(past, place)
    if weekday is None:  # "they gave me Friday 5 June": the weekday has no "on", and is no time by itself
        weekday = WEEKDAYS.get(read.word(place - 1))
    if weekday is not None and (fitting := of_weekday((past, ahead), weekday)) is not None:
        return _as_found(fitting, place)  # "Saturday 3 October" says its year
    if way == "past":
        return _as_found(past, place)
    if read.word(place - 1) in _OF:
        way = None  # "the invoice of 14 November is paid"
    if way == "ahead" or past.grain not in ("day", "days"):
        later = way == "ahead" or _nearer(read.now, past.span, ahead.span)
        return _as_found(ahead if later else past, place)
    return _as_found(ahead if _nearer(read.now, past.span, ahead.span) else past, place)


def _way(read: Reading, place: int, after: int | None = None) -> Direction | None:
    end = place + 1 if after is None else after
    while end < len(read.words) and read.word(end) in ("the", "next", "last", "this"):
        end += 1
    return direction(read.words, place, end)


def _nearer(now: datetime, past: Span, ahead: Span) -> bool:
    """Whether the one ahead is as near as the one before, or nearly so: what is told lies ahead more often."""
    return ahead.start - now <= 3 * (now - past.end) or past.end > now


def _as_found(one: Period, place: int) -> Found:
    absolute = one.year_told and one.kind in _ABSOLUTE
    end = one.span.end
    if one.grain == "part":  # a night is of its day: what is on tonight is not on tomorrow
        end = min(end, day_of(one.span.start) + DAY)
    return Found(one.span.start, end, place, one.after, one.grain, absolute)


def _is_counted(one: Period) -> bool:
    return one.kind == "relative" and one.grain in ("day", "days", "hour")


def _is_sure(read: Reading, place: int, one: Period) -> bool:
    """Not a version ("4.2.11"), nor a bare number that could be a year ("for 2000 euros")."""
    said = read.said(place, one.after)
    if (figures := _FIGURES.fullmatch(said)) is not None:
        near = abs(one.span.start.year - read.now.year) <= _SHORT_YEARS
        return len(figures[1]) == 2 and near and read.word(place - 1) in _LEADS_A_DATE
    if one.grain == "year" and said.isdecimal():
        before = read.word(place - 1)
        return before in _YEAR_LEADS or (before in ("from", "between", *RANGING) and _is_ranging(read, place))
    if re.match(r"\d+[-/.]\d", said):
        return _stands_alone(read, place, one)
    return True


def _stands_alone(read: Reading, place: int, one: Period) -> bool:
    """Of a date in figures: not a part of a longer number."""
    start, end = read.places[place][0], read.places[one.after - 1][1]
    before, after = read.text[max(0, start - 1) : start], read.text[end : end + 2]
    return before not in ("-", "/", ".") and not re.match(r"\d|[-/]\w", after)


def _is_ranging(read: Reading, place: int) -> bool:
    """Of a year: "from 2001 to 2004", at either end."""
    return read.word(place + 1) in RANGING or read.word(place - 2).isdecimal()


def _opened(read: Reading, place: int, context: Span | None) -> Found | None:
    """ "since March" up to now, "until Friday" from now on, "by Friday" that day, "from Monday to Wednesday"."""
    link = read.word(place)
    if link == "from" and (ranged := _from_number(read, place)) is not None:
        return ranged
    if link == "since":
        one = period(read.at(read.now, future=False), place + 1)
        weekday = weekday_in(read, place + 1)
        if one is not None and weekday is not None and one.kind == "relative" and one.grain in ("day", "part"):
            one = moved_weekday(read, place + 1, one, weekday, "past")
        return None if one is None else _between(read, place, one.span.start, read.now, one)
    alone = days_alone(read, place + 1, context) if read.word(place + 1) == "the" else []
    found = _single(read, place + 1, context) or (alone[0] if alone else None)
    if found is None:
        return None
    if link == "from":
        if read.word(found.after) in RANGING and not _MOVES.isdisjoint(read.words[max(0, place - 8) : place]):
            # "Moved from Tuesday to Thursday" is on Thursday.
            after = found.after + 1
            later = _single(read, after, context) or next(iter(days_alone(read, after, context)), None)
            return found if later is None else later
        both = _ranged(read, place + 1, found, context) if read.word(found.after) in RANGING else None
        return both or found._replace(first=place)
    if link == "by":
        return found._replace(first=place)
    today = day_of(read.now)
    ahead = found.end > read.now
    if link in ("until", "till"):
        start = today if ahead else found.start - _OPEN_END
        return found._replace(start=min(start, found.start), first=place, grain="open")
    if link == "before":
        return found._replace(start=found.start - DAY, end=found.start, first=place, grain="open")
    return found._replace(start=found.end, end=found.end + _OPEN_END, first=place, grain="open")


def _between(read: Reading, place: int, start: datetime, end: datetime, one: Period) -> Found | None:
    if start >= end:
        return None
    return Found(start, end, place, one.after, "open", absolute=False)


def _ranged(read: Reading, place: int, one: Found, context: Span | None) -> Found | None:
    """ "Monday to Wednesday", "3 May until 5 May": both ends are inside; the second comes after the first."""
    after = one.after + 1
    if not one.absolute and one.start > read.now and (running := _running(read, place, after)) is not None:
        return running
    if read.word(after) == "the" and (alone := days_alone(read, after, Span(one.start, one.end))):
        other = alone[0]
    else:
        later = read.at(one.start, future=True)
        found = _single(later, after, context)
        if found is None:
            return None
        other = found
        while other.end <= one.start and not other.absolute and weekday_in(read, after) is not None:
            other = other._replace(start=other.start + WEEK, end=other.end + WEEK)
    if other.end <= one.start or other.end - one.start > _LONGEST_RANGE:
        return None
    if not one.absolute and other.absolute:  # "3 May to 5 May 2023"
        again = period(read.at(other.end - DAY, future=False), place)
        if again is not None and again.span.start < other.start:
            one = one._replace(start=again.span.start)
    return Found(one.start, other.end, one.first, other.after, "days", one.absolute or other.absolute)


def _running(read: Reading, place: int, after: int) -> Found | None:
    """The range that has begun and is not over, where the last of what comes every year makes one."""
    first = period(read.at(read.now, future=False), place)
    if first is None or first.year_told or first.kind == "relative":
        return None
    last = period(read.at(first.span.start, future=True), after)
    if last is None or not first.span.start <= read.now < last.span.end <= first.span.start + _LONGEST_RUNNING:
        return None
    return Found(first.span.start, last.span.end, place, last.after, "days", absolute=False)


def _from_number(read: Reading, place: int) -> Found | None:
    """ "from 3 to 5 May", "from the 3rd to the 5th of May"."""
    start = place + 2 if read.word(place + 1) == "the" else place + 1
    match = re.fullmatch(r"([12]?\d|3[01])(?:st|nd|rd|th)?", read.word(start))
    if match is None or read.word(start + 1) not in RANGING:
        return None
    other = _single(read, start + 3 if read.word(start + 2) == "the" else start + 2, None)
    if other is None or other.grain != "day" or not 0 < int(match[1]) < other.start.day:
        return None
    return other._replace(start=other.start.replace(day=int(match[1])), first=place, grain="days")


def _weekly(read: Reading, place: int, told: Repeated) -> list[Found]:
    """The first of each weekday from the day of saying on, said to come every week; none of what is over."""
    if told.is_over:
        return [Found(read.now, read.now, place, told.after, "none", absolute=False)]
    today = day_of(read.now)
    days = [today + DAY * ((weekday - today.weekday()) % 7) for weekday in told.weekdays]
    if told.part is None:
        return [Found(day, day + DAY, place, told.after, "day", absolute=False, weekly=True) for day in days]
    start, end = (timedelta(hours=hour) for hour in PARTS[told.part])
    return [Found(day + start, day + end, place, told.after, "part", absolute=False, weekly=True) for day in days]


RANGING: Final = frozenset(("to", "until", "till", "through", "-", "–"))
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
_LEADS_of_told: Final = ("on", "by", "until", "till", "from", "since")
_MOST_LISTED: Final = 4
_IS: Final = frozenset("is are isn't aren't".split())
_BE_NEAR: Final = 3


class Found(NamedTuple):
    """A time in local wall-clock time, with the places of its words in the sentence."""

    start: datetime
    end: datetime
    first: int
    after: int
    grain: str
    absolute: bool = True
    weekly: bool = False


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


def weekday_and_number(read: Reading, place: int, way: Direction | None) -> Found | None:
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
    return None if day is None else Found(day, day + DAY, place, at + 1, "day", absolute=False)


def days_alone(read: Reading, place: int, context: Span | None) -> list[Found]:
    """ "on the 19th", "the 19th and 20th", "from the 23rd to the 27th": days of the month that is meant.

    `context` is the time that was told before them: after "Christmas" the 23rd is of December.
    """
    numbers, ranging = _numbers(read, place)
    if not numbers or not (len(numbers) > 1 or place == 0 or read.word(place - 1) in _BEFORE):
        return []
    after = numbers[-1][1]
    if len(numbers) > 1 and not ranging and read.word(after) == "of":
        return _of_month(read, place, numbers)
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
        return [Found(days[0], days[1] + DAY, place, after, "days", absolute=False)]
    return [
        Found(day, day + DAY, place, end, "day", absolute=False)
        for day, (_, end) in zip(days, numbers, strict=True)
    ]


def _numbers(read: Reading, place: int) -> tuple[list[tuple[int, int]], bool]:
    """The numbers after "the", each with the place after it, and whether they are the ends of a range."""
    numbers: list[tuple[int, int]] = []
    ranging, at = False, place
    while read.word(place) == "the" and len(numbers) < _MOST_LISTED:
        at += 1 if read.word(at) == "the" else 0
        match = _ORDINAL.fullmatch(read.word(at))
        in_words = DAY_WORDS.get(read.word(at), 0) if read.word(place - 1) in _LEADS_of_told else 0
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


def _of_month(read: Reading, place: int, numbers: list[tuple[int, int]]) -> list[Found]:
    """ "the 19th and 20th of December": the last one says the month of all."""
    way = direction(read.words, place, numbers[-1][1])
    last = numbered(read.at(read.now, future=way != "past"), numbers[-1][1] - 1)
    if last is None or last.grain != "day":
        return []
    start, is_told = last.span.start, last.year_told
    return [
        *(
            Found(start.replace(day=number), start.replace(day=number) + DAY, place, after, "day", is_told)
            for number, after in numbers[:-1]
            if number < start.day
        ),
        Found(start, last.span.end, place, last.after, "day", is_told),
    ]


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


# A sentence ends before a capital (not "3. Dezember"), a line at its end; what is longer is read in pieces.
_SENTENCE: Final = re.compile(r"(?<=[.!?…])(?<!\d\.)[\"'”’)]*\s+(?=[\"'“‘(]*[^\W\da-z_])|\n")
_LONGEST: Final = 1500
_ISO_CLOCK: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}[Tt](\d{1,2}):(\d\d)")
_DATE_NEAR: Final = 2
"""Words between a weekday and its date, at most."""


def told_times(text: str, now: datetime | None, *, most: int = 12) -> list[TimeMention]:
    """The times that a text tells, in its order, each interval once, `most` at most.

    `now`, which has a zone, is when it was said. Without it only times that need none are found.
    """
    anchor = datetime(2000, 1, 1, tzinfo=UTC) if now is None else now
    found: dict[tuple[float, float, bool], TimeMention] = {}
    context: Span | None = None
    for sentence in _sentences(text):
        sentence_reading = reading(sentence, anchor, translate=True)
        if sentence_reading is None:
            continue
        for one in _once(sentence_reading, [*in_sentence(sentence_reading, context)]):
            if now is None and not one.absolute:
                continue
            if one.grain in _WITH_CONTEXT:
                context = Span(one.start, one.end)
            for mention in _mentions(sentence_reading, sentence, one):
                found.setdefault((mention.since, mention.until, mention.weekly), mention)
                if len(found) == most:
                    return list(found.values())
    return list(found.values())


def _once(read: Reading, found: list[Found]) -> Iterator[Found]:
    """The times without weekdays whose date follows: "the Saturday flight, 6 June"."""
    for place, one in enumerate(found):
        named = read.word(one.first + (read.word(one.first) == "the"))
        is_weekday = named in WEEKDAYS and one.grain == "day" and not one.weekly
        if is_weekday and place + 1 < len(found):
            date = found[place + 1]
            same_day = date.grain == "day" and not date.weekly and date.start.weekday() == one.start.weekday()
            if same_day and date.start != one.start and 0 < date.first - one.after <= _DATE_NEAR:
                continue
        yield one


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        for start in range(0, len(sentence), _LONGEST):
            piece = sentence[start : start + _LONGEST]
            yield piece


def _mentions(read: Reading, sentence: str, one: Found) -> Iterator[TimeMention]:
    """The time with its clock times, if it is a day with some, else as it is."""
    if one.grain == "none":
        return
    said = " ".join(sentence[read.places[one.first][0] : read.places[one.after - 1][1]].split())
    if (iso := _ISO_CLOCK.match(sentence, read.places[one.first][0])) is not None and int(iso[1]) < 24:
        start = day_of(one.start) + timedelta(hours=int(iso[1]), minutes=int(iso[2]) % 60)
        yield _mention(read, said, start, start + timedelta(minutes=1))
        return
    is_day = one.grain in ("day", "part") and one.end - one.start <= DAY
    clocks = [*_clocks(read, sentence, one)] if is_day else []
    if not clocks:
        yield _mention(read, said, one.start, one.end, weekly=one.weekly)
        return
    day = day_of(one.start)
    if read.word(one.first) in WEEKDAYS and day == day_of(read.now):
        last = max(day + timedelta(minutes=clock.end) for clock, _ in clocks)
        day += WEEK if last <= read.now else timedelta()  # "Monday at nine", said on a Monday at noon
    for clock, words in clocks:
        start = day + timedelta(minutes=clock.start)
        yield _mention(read, words, start, day + timedelta(minutes=clock.end), weekly=one.weekly)


def _clocks(read: Reading, sentence: str, one: Found) -> Iterator[tuple[Clock, str]]:
    """The clock times of a day: right before or after it, and further ones up to the next time of the sentence."""
    first, last = read.places[one.first][0], read.places[one.after - 1][1]
    pm_until = 11 if one.grain == "part" and one.start.hour >= 12 else 0
    if (before := clock_before(sentence, first)) is not None:
        yield before[1], " ".join(sentence[before[0] : last].split())
    at = clock_after(sentence, last, pm_until=pm_until)
    if at is not None:
        yield at, " ".join(sentence[first : at.after].split())
    place, began = one.after, last if at is None else at.after
    while place < len(read.words):
        start = read.places[place][0]
        if _is_a_day(read, place):
            return
        if start >= began and (read.word(place) in ("at", "from") or read.words[place].isdecimal()):
            found = clock_after(sentence, start, pm_until=pm_until)
            if found is not None and not (start and sentence[start - 1] in ":.-/"):
                yield found, " ".join(sentence[start : found.after].split())
                began = found.after
        place += 1


def _is_a_day(read: Reading, place: int) -> bool:
    word = read.word(place)
    if word in WEEKDAYS or word in ("today", "tomorrow", "yesterday", "tonight"):
        return True
    try:
        return word not in PARTS and period(read, place) is not None
    except (ValueError, OverflowError):  # "4500 years ago": beyond the years that a calendar has
        return False


def _mention(read: Reading, said: str, start: datetime, end: datetime, *, weekly: bool = False) -> TimeMention:
    since, until = (moment.replace(tzinfo=read.zone).astimezone(UTC).timestamp() for moment in (start, end))
    return TimeMention(text=said, since=since, until=max(until, since + 60), weekly=weekly)
