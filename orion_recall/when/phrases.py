"""Periods relative to now or to another period: "last week", "two months ago", "the Friday before Easter"."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from orion_recall.when.calendar import DAY, WEEK, Span, day_of, moved, shifted, third, unit_of
from orion_recall.when.periods import by_name, nth, whole
from orion_recall.when.reading import Period, Reading, duration
from orion_recall.when.relative import (
    ago,
    counted_span,
    modified,
    of_days,
    own_unit,
    rolling,
    rolling_unit,
    unit_beside_now,
    weekend,
)
from orion_recall.when.vocabulary import BEGINNINGS, DAYS, EDGES, MODIFIERS, PARTS, THIS, UNITS, WEEKDAYS

_BEFORE: Final = frozenset(("before", "preceding"))
_AFTER: Final = frozenset(("after", "following"))
# "The night of the day before the Friday before Easter" is deep enough.
_DEEPEST: Final = 3
_BEYOND: Final = {("before", "last"): -2, ("after", "next"): 2}
_ROLLING_AFTER: Final = frozenset("in over during within for throughout".split())


def period(reading: Reading, place: int, depth: int = 0) -> Period | None:
    """The period that begins there, whatever names it; `depth` is how many others it is told by."""
    if depth > _DEEPEST:
        return None
    if reading.word(place) == "the":
        if reading.word(place - 1) in _ROLLING_AFTER and (found := rolling_unit(reading, place + 1)) is not None:
            return found
        place += 1
    word = reading.word(place)
    if word not in BEGINNINGS and not (word[:1].isdigit() or word[:1] == "'"):
        return None
    found = (
        _before_last(reading, place)
        or nth(reading, place)
        or _beside(reading, place, depth)
        or _unit_with(reading, place, depth)
        or _edge(reading, place)
        or _day(reading, place)
        or _part_of(reading, place, depth)
        or rolling(reading, place)
        or modified(reading, place)
        or ago(reading, place)
        or by_name(reading, place)
        or weekend(reading, place)
        or own_unit(reading, place)
    )
    if found is not None and found.grain == "day" and reading.word(found.after) in PARTS:
        return _cut(found, reading.word(found.after))._replace(after=found.after + 1)
    return found


def _cut(of: Period, part: str) -> Period:
    """A part of a day; of several days that of the first."""
    first, last = PARTS[part]
    start = of.span.start
    return of._replace(span=Span(start + timedelta(hours=first), start + timedelta(hours=last)), grain="part")


def _day(reading: Reading, place: int) -> Period | None:
    """ "yesterday", "last night", "tonight", "this morning", "the day before yesterday"."""
    word, following, today = reading.word(place).removesuffix("'s"), reading.word(place + 1), day_of(reading.now)
    if word == "day":
        count = {("before", "yesterday"): -2, ("after", "tomorrow"): 2}.get((following, reading.word(place + 2)))
        return of_days(today + DAY * count, 1, place + 3) if count is not None else None
    if word == "last" and following == "night":
        return _cut(of_days(today - DAY, 1, place + 2), "night")
    if word == "tonight":
        return _cut(of_days(today, 1, place + 1), "night")
    if word in THIS and following in PARTS:
        return _cut(of_days(today, 1, place + 2), following)
    return of_days(today + DAY * DAYS[word], 1, place + 1) if word in DAYS else None


def _part_of(reading: Reading, place: int, depth: int) -> Period | None:
    """ "morning of 7 July", "evening of that" is none."""
    part = reading.word(place)
    if part not in PARTS or reading.word(place + 1) not in ("of", "on"):
        return None
    found = period(reading, place + 2, depth + 1)
    return _cut(found, part) if found is not None and found.grain == "day" else None


def _unit_with(reading: Reading, place: int, depth: int) -> Period | None:
    """ "week of October 12th", "weekend of 14 November": the one that the day is in."""
    unit = reading.word(place)
    if unit not in ("week", "weekend", "month", "year") or reading.word(place + 1) != "of":
        return None
    found = period(reading, place + 2, depth + 1)
    if found is None or found.grain != "day":
        return None
    return found._replace(span=unit_of(found.span.start, unit), grain=unit)


def _before_last(reading: Reading, place: int) -> Period | None:
    """ "the week before last", "the Friday before last", "the year after next"."""
    unit = reading.word(place)
    count = _BEYOND.get((reading.word(place + 1), reading.word(place + 2)))
    if count is None:
        return None
    if unit == "night" and count < 0:
        return _cut(of_days(day_of(reading.now) - 2 * DAY, 1, place + 3), "night")
    if unit in WEEKDAYS:
        found = by_name(reading, place, "last" if count < 0 else "next")
        days = WEEK if count > 0 else -WEEK
        return found._replace(span=moved(found.span, days), after=place + 3) if found is not None else None
    if unit in UNITS and unit not in ("minute", "hour", "day"):
        return Period(unit_beside_now(reading, unit, count), place + 3, unit, "relative")
    return None


def _beside(reading: Reading, place: int, depth: int) -> Period | None:
    """ "the Friday before Easter", "the week after 3 May", "last weekend before April 10", "two days after …"."""
    start = place + 1 if reading.word(place) in MODIFIERS or reading.word(place) == "first" else place
    if (counted := duration(reading, start)) is not None and counted.unit != "weekend":
        after = counted.after
    elif reading.word(start) in WEEKDAYS or reading.word(start) in UNITS or reading.word(start) in PARTS:
        after = start + 1
    else:
        return None
    link = reading.word(after)
    if link == "prior" and reading.word(after + 1) == "to":
        link, after = "before", after + 1
    if link not in _BEFORE and link not in _AFTER:
        return None
    anchor = period(reading, after + 1, depth + 1)
    if anchor is None:
        return None
    back, unit = link in _BEFORE, reading.word(start)
    if counted is not None:
        base = anchor.span.start if back else anchor.span.end - DAY
        if anchor.grain == "day":  # of a holiday of several days that in the middle
            base = anchor.span.start + DAY * ((anchor.span.end - anchor.span.start).days // 2)
        span = counted_span(reading.at(base, future=False), counted, back=back)
    else:
        span = _next_to(anchor.span, unit, back=back)
    return Period(
        span, anchor.after, "day" if span.end - span.start == DAY else "days", anchor.kind, anchor.year_told
    )


def _next_to(anchor: Span, unit: str, *, back: bool) -> Span:
    """The weekday, part of a day, weekend or unit that is next before or after a span."""
    if unit in WEEKDAYS:
        if back:
            eve = anchor.start - DAY
            day = eve - DAY * ((eve.weekday() - WEEKDAYS[unit]) % 7)
        else:
            day = anchor.end + DAY * ((WEEKDAYS[unit] - anchor.end.weekday()) % 7)
        return Span(day, day + DAY)
    if unit in PARTS:
        return _cut(of_days(anchor.start - DAY if back else anchor.end, 1, 0), unit).span
    unit = UNITS[unit]
    if unit == "weekend":
        found = unit_of(anchor.start if back else anchor.end, unit)
        while back and found.end > anchor.start:
            found = moved(found, -WEEK)
        while not back and found.start < anchor.end:
            found = moved(found, WEEK)
        return found
    if back:
        return Span(shifted(anchor.start, unit, -1), anchor.start)
    return Span(anchor.end, shifted(anchor.end, unit, 1))


def _edge(reading: Reading, place: int) -> Period | None:
    """ "early May", "mid-August", "the end of last year", "late in 2021"; "earlier this week", "later today"."""
    word = reading.word(place)
    if word in ("earlier", "later"):
        found = modified(reading, place + 1) or _day(reading, place + 1)
        if found is None or not found.span.start < reading.now < found.span.end:
            return None
        span = Span(found.span.start, reading.now) if word == "earlier" else Span(reading.now, found.span.end)
        return found._replace(span=span, grain="part")
    if word not in EDGES:
        return None
    after = place + 1
    if word in ("early", "mid", "late"):
        while reading.word(after) in ("-", "in", "the"):
            after += 1
    elif reading.word(after) != "of":
        return None
    else:
        after += 1
    found = whole(reading, after)
    if found is None or found.grain in ("day", "hour", "part"):
        return None
    return found._replace(span=third(found.span, EDGES[word]), grain="third")
