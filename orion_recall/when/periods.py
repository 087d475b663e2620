"""Named periods: months, seasons, holidays, weekdays, and parts of them.

Each rule takes a reading and a place, and gives the period that begins there, or None.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

from orion_recall.when.calendar import (
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
)
from orion_recall.when.dates import day_of_month, numbered
from orion_recall.when.reading import Period, Reading
from orion_recall.when.recurrence import choice, of_year, year_told
from orion_recall.when.vocabulary import (
    HOLIDAY_BEGINNINGS,
    LAST,
    MONTHS,
    NEXT,
    ORDINALS,
    PARTS,
    PAST,
    REPEATED_PARTS,
    SEASONS,
    THIS,
    WEEKDAY_LEADS,
    WEEKDAYS,
)

# Also verbs, names or other words: a capital or the word before them must say that they are months.
_DOUBTFUL = frozenset("may march mar jan dec".split())
_SURELY = frozenset("in since until during".split())
_SEASON_AFTER = frozenset("in during since until early mid late -".split())
_SEASON_AFTER_THE = frozenset("in during over for since before after of until by".split())


def by_name(reading: Reading, place: int, modifier: str = "") -> Period | None:
    """A holiday, month, season, weekday or date by its name; `modifier` is last, this or next, said before it."""
    word = reading.word(place)
    return (
        _holiday(reading, place, modifier)
        or (_month(reading, place, modifier) if word in MONTHS else None)
        or (_season(reading, place, modifier) if word in SEASONS else None)
        or (_weekday(reading, place, modifier) if word in WEEKDAYS else None)
        or (None if modifier else numbered(reading, place))
    )


def _holiday(reading: Reading, place: int, modifier: str) -> Period | None:
    word = reading.word(place)
    for name in HOLIDAY_BEGINNINGS.get(word, HOLIDAY_BEGINNINGS.get(word.removesuffix("'s"), ())):
        said = reading.words[place : place + len(name)]
        if (*said[:-1], said[-1].removesuffix("'s")) != (*name[:-1], name[-1].removesuffix("'s")):
            continue
        if name != ("may", "day") or reading.capital(place):
            return of_year(reading, place + len(name), partial(holiday, name), "day", modifier)
    led = reading.word(place - 2) in ("over", "during", "for", "before", "after", "since")
    if led and reading.word(place - 1) == "the" and word == "holidays":
        return of_year(reading, place + 1, _holidays, "holidays", modifier)
    return None


def _holidays(year: int) -> Span:
    return Span(datetime(year, 12, 20), datetime(year + 1, 1, 3))


def _month(reading: Reading, place: int, modifier: str) -> Period | None:
    word, month, after = reading.word(place), MONTHS[reading.word(place)], place + 1
    if reading.word(after) == "." and len(word) <= 4:
        after += 1
    if (dated := day_of_month(reading, after, month)) is not None and (not modifier or not dated.year_told):
        return dated
    told = None if modifier else year_told(reading, after)
    of = partial(months, first=month, count=1)
    if told is not None:
        return Period(of(told[0]), told[1], "month", "period")
    if word in reading.names:
        return None
    if not modifier and not reading.led(place):
        return None
    clear = reading.capital(place) or (word in ("may", "march") and reading.word(place - 1) in _SURELY)
    if word in _DOUBTFUL and not clear:
        return None
    return of_year(reading, place + 1, of, "month", modifier)


def _season(reading: Reading, place: int, modifier: str) -> Period | None:
    word = reading.word(place)
    of = partial(_season_of, SEASONS[word], reading.south)
    if (winter := re.fullmatch(r"(\d{4})[-/]\d{2,4}", reading.word(place + 1))) is not None:
        return Period(of(int(winter[1])), place + 2, "season", "period")
    if not modifier and year_told(reading, place + 1) is None:
        before, first = reading.word(place - 1), reading.word(place - 2)
        if before not in _SEASON_AFTER and not (before == "the" and first in _SEASON_AFTER_THE):
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
    if not modifier and (dated := _dated(reading, place + 1, weekday)) is not None:
        return dated
    today = day_of(reading.now)
    back = (today.weekday() - weekday) % 7
    match choice(reading, modifier):
        case "last":
            day = today - DAY * (back or 7)
        case "next" if modifier == "next":  # that of the next week: the first one is called "this Friday"
            day = today + DAY * (7 - today.weekday() + weekday)
        case "next":
            day = today - DAY * back + WEEK
        case "this":
            day = today + DAY * (weekday - today.weekday())
            if reading.future and day < today:  # on a Sunday "this Friday" is no more that of the week
                day += WEEK
        case "ahead":
            day = today + DAY * (-back % 7)
        case _:
            day = today - DAY * back
    after = place + 2 if reading.word(place + 1) == "." and len(word) < 6 else place + 1
    return Period(Span(day, day + DAY), after, "day", "relative", year_told=bool(modifier))


def _is_a_day(reading: Reading, place: int) -> bool:
    """Not "every Friday" or "Friday mornings", nor a Friday in the middle of something else's name."""
    if reading.word(place - 1) in ("every", "each") or reading.word(place + 1) in REPEATED_PARTS:
        return False
    ends = _ends(reading, place + 1) or reading.word(place + 1) in PARTS
    return place == 0 or ends or reading.led(place) or reading.word(place - 1) in WEEKDAY_LEADS


def _ends(reading: Reading, place: int) -> bool:
    """Whether the clause ends before this place."""
    return place >= len(reading.words) or reading.word(place) in (",", "?", "!", ".")


def _dated(reading: Reading, place: int, weekday: int) -> Period | None:
    """The date that a weekday stands before: "Friday, 13 October 2023".

    Without a year it is the last one or the next, whichever is that weekday. It is chosen by the tense if neither
    or both are, and if what was is asked for: then the weekday is told wrong.
    """
    one = _date(reading, place)
    if one is None or one.year_told or one.span.start.weekday() == weekday:
        return one
    if not reading.future and not PAST.isdisjoint(reading.words):
        return one
    other = _date(reading.at(reading.now, future=not reading.future), place)
    return other if other is not None and other.span.start.weekday() == weekday else one


def _date(reading: Reading, place: int) -> Period | None:
    while reading.word(place) in (",", "the"):
        place += 1
    found = numbered(reading, place) or (_month(reading, place, "") if reading.word(place) in MONTHS else None)
    return found if found is not None and found.grain == "day" else None


def nth(reading: Reading, place: int) -> Period | None:
    """ "first week of May", "last Friday in June 2022", "second half of 2021", "third quarter"."""
    count = ORDINALS.get(reading.word(place))
    if count is None and (match := re.fullmatch(r"([1-5])(?:st|nd|rd|th)", reading.word(place))):
        count = int(match[1])
    if count is None:
        return None
    unit, after = reading.word(place + 1), place + 2
    if unit == "quarter" and 1 <= count <= 4 and _is_of_a_year(reading, place):
        return of_year(reading, after, partial(months, first=count * 3 - 2, count=3), "quarter")
    if reading.word(after) not in ("of", "in"):
        return None
    of = whole(reading, after + 1)
    if of is None:
        return None
    span, grain = of.span, "day"
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
        middle = shifted(span.start, "month", 6) if of.grain == "year" else day_of(middle)
        part, grain = (Span(span.start, middle) if count == 1 else Span(middle, span.end)), "half"
    else:
        return None
    return of._replace(span=part, grain=grain) if part.start < span.end else None


def _is_of_a_year(reading: Reading, place: int) -> bool:
    """Of a quarter: not "who won the third quarter", not that "of the match"."""
    after = place + 2
    led = reading.word(place - 1) == "the" and reading.word(place - 2) in _SEASON_AFTER_THE
    return _ends(reading, after) or year_told(reading, after) is not None or (led and reading.word(after) != "of")


def whole(reading: Reading, place: int) -> Period | None:
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
