"""Periods by their place to now or to another period: "last week", "two months ago", "the Friday before Easter"."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from orion_recall.recall.when.calendar import DAY, WEEK, Span, day_of, shifted, third, unit_of, years
from orion_recall.recall.when.periods import by_name, nth, whole
from orion_recall.recall.when.reading import Duration, Period, Reading, duration
from orion_recall.recall.when.vocabulary import (
    BEGINNINGS,
    DAYS,
    EDGES,
    LAST,
    MODIFIERS,
    NEXT,
    PARTS,
    THIS,
    UNITS,
    WEEKDAYS,
)

_BEFORE: Final = frozenset(("before", "preceding"))
_AFTER: Final = frozenset(("after", "following"))
_BEYOND: Final = {("before", "last"): -2, ("after", "next"): 2}
_ROLLING_AFTER: Final = frozenset("in over during within for throughout".split())


def period(reading: Reading, place: int) -> Period | None:
    """The period that begins there, whatever names it."""
    if reading.word(place) == "the":
        if reading.word(place - 1) in _ROLLING_AFTER and (found := _rolling_unit(reading, place + 1)) is not None:
            return found
        place += 1
    word = reading.word(place)
    if word not in BEGINNINGS and not (word[:1].isdigit() or word[:1] == "'"):
        return None
    found = (
        _before_last(reading, place)
        or nth(reading, place)
        or _beside(reading, place)
        or _edge(reading, place)
        or _day(reading, place)
        or _part_of(reading, place)
        or _rolling(reading, place)
        or _modified(reading, place)
        or _counted(reading, place)
        or by_name(reading, place)
        or _weekend(reading, place)
    )
    if found is not None and found.grain == "day" and reading.word(found.after) in PARTS:
        return _cut(found, reading.word(found.after))._replace(after=found.after + 1)
    return found


def _cut(of: Period, part: str) -> Period:
    """A part of a day; of several days that of the first."""
    first, last = PARTS[part]
    start = of.span.start
    return of._replace(span=Span(start + timedelta(hours=first), start + timedelta(hours=last)), grain="part")


def _days(first: datetime, count: int, after: int, kind: str = "relative") -> Period:
    return Period(Span(first, first + DAY * count), after, "day" if count == 1 else "days", kind)


def _day(reading: Reading, place: int) -> Period | None:
    """ "yesterday", "last night", "tonight", "this morning", "the day before yesterday"."""
    word, following, today = reading.word(place).removesuffix("'s"), reading.word(place + 1), day_of(reading.now)
    if word == "day":
        count = {("before", "yesterday"): -2, ("after", "tomorrow"): 2}.get((following, reading.word(place + 2)))
        return _days(today + DAY * count, 1, place + 3) if count is not None else None
    if word == "last" and following == "night":
        return _cut(_days(today - DAY, 1, place + 2), "night")
    if word == "tonight":
        return _cut(_days(today, 1, place + 1), "night")
    if word in THIS and following in PARTS:
        return _cut(_days(today, 1, place + 2), following)
    return _days(today + DAY * DAYS[word], 1, place + 1) if word in DAYS else None


def _part_of(reading: Reading, place: int) -> Period | None:
    """ "morning of 7 July", "evening of that" is none."""
    part = reading.word(place)
    if part not in PARTS or reading.word(place + 1) not in ("of", "on"):
        return None
    found = period(reading, place + 2)
    return _cut(found, part) if found is not None and found.grain == "day" else None


def _before_last(reading: Reading, place: int) -> Period | None:
    """ "the week before last", "the Friday before last", "the year after next"."""
    unit = reading.word(place)
    count = _BEYOND.get((reading.word(place + 1), reading.word(place + 2)))
    if count is None:
        return None
    if unit == "night" and count < 0:
        return _cut(_days(day_of(reading.now) - 2 * DAY, 1, place + 3), "night")
    if unit in WEEKDAYS:
        found = by_name(reading, place, "last" if count < 0 else "next")
        days = WEEK if count > 0 else -WEEK
        return found._replace(span=_moved(found.span, days), after=place + 3) if found is not None else None
    if unit in UNITS and unit not in ("minute", "hour", "day"):
        return Period(_unit_beside_now(reading, unit, count), place + 3, unit, "relative")
    return None


def _moved(span: Span, by: timedelta) -> Span:
    return Span(span.start + by, span.end + by)


def _unit_beside_now(reading: Reading, unit: str, count: int) -> Span:
    """The unit of now, or so many after or before it. The last weekend is the last that is over."""
    if unit == "weekend":
        span = unit_of(reading.now, unit)
        return _moved(span, WEEK * count)
    if unit == "fortnight":
        today = day_of(reading.now)
        return Span(today + 2 * WEEK * count, today + 2 * WEEK * (count + 1))
    return unit_of(shifted(reading.now, unit, count), unit)


def _beside(reading: Reading, place: int) -> Period | None:
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
    anchor = period(reading, after + 1)
    if anchor is None:
        return None
    back, unit = link in _BEFORE, reading.word(start)
    if counted is not None:
        base = anchor.span.start if back else anchor.span.end - DAY
        if anchor.grain == "day":  # of a holiday of several days that in the middle
            base = anchor.span.start + DAY * ((anchor.span.end - anchor.span.start).days // 2)
        span = _counted_span(reading.at(base, future=False), counted, back=back)
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
        return _cut(_days(anchor.start - DAY if back else anchor.end, 1, 0), unit).span
    unit = UNITS[unit]
    if unit == "weekend":
        found = unit_of(anchor.start if back else anchor.end, unit)
        while back and found.end > anchor.start:
            found = _moved(found, -WEEK)
        while not back and found.start < anchor.end:
            found = _moved(found, WEEK)
        return found
    if back:
        return Span(shifted(anchor.start, unit, -1), anchor.start)
    return Span(anchor.end, shifted(anchor.end, unit, 1))


def _edge(reading: Reading, place: int) -> Period | None:
    """ "early May", "mid-August", "the end of last year", "late in 2021"; "earlier this week", "later today"."""
    word = reading.word(place)
    if word in ("earlier", "later"):
        found = _modified(reading, place + 1) or _day(reading, place + 1)
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


def _rolling_unit(reading: Reading, place: int) -> Period | None:
    """After "in the" and the like: "last year" is the year up to now, "next month" the month from now on."""
    word, unit = reading.word(place), reading.word(place + 1)
    if unit in UNITS and UNITS[unit] == unit and unit != "weekend" and (word in LAST or word in NEXT):
        if reading.word(place + 2) in ("of", "in", "before", "after", "prior"):
            return None
        return _up_to_now(reading, Duration(1, 1, unit, place + 2), ahead=word in NEXT)
    return None


def _rolling(reading: Reading, place: int) -> Period | None:
    """ "last two weeks", "past few days", "past year", "next 3 months"."""
    word = reading.word(place)
    if word not in LAST and word not in NEXT:
        return None
    if reading.word(place + 1) in ("a", "an"):
        return None
    counted = duration(reading, place + 1)
    if counted is not None and counted.unit != "weekend":
        return _up_to_now(reading, counted, ahead=word in NEXT)
    unit = reading.word(place + 1)
    if word == "past" and unit in UNITS and UNITS[unit] == unit and unit != "weekend":
        return _up_to_now(reading, Duration(1, 1, unit, place + 2), ahead=False)
    return None


def _up_to_now(reading: Reading, counted: Duration, *, ahead: bool) -> Period:
    today = day_of(reading.now)
    if counted.unit in ("minute", "hour"):
        minutes = counted.most * (60 if counted.unit == "hour" else 1)
        span = reading.minutes_ago(-minutes, 0) if ahead else reading.minutes_ago(0, minutes)
    elif ahead:
        span = Span(today, shifted(today, counted.unit, counted.most) + DAY)
    else:
        span = Span(shifted(today, counted.unit, -counted.most), today + DAY)
    return Period(span, counted.after, "rolling", "relative")


def _modified(reading: Reading, place: int) -> Period | None:
    """ "last week", "this past weekend", "next Friday", "last summer", "this time last year"."""
    word, after = reading.word(place), place + 1
    if word in THIS and reading.word(after) == "time" and reading.word(after + 1) in MODIFIERS:
        unit = reading.word(after + 2)
        if unit in UNITS and reading.word(after + 1) in LAST:
            day = shifted(day_of(reading.now), UNITS[unit], -1)
            slack = 0 if unit == "week" else 7
            return _days(day - DAY * slack, 1 + 2 * slack, after + 3)
        return None
    if word not in MODIFIERS:
        return None
    if word in THIS and reading.word(after) in (LAST | NEXT):
        word, after = reading.word(after), after + 1
    unit = reading.word(after).removesuffix("'s")
    if unit in UNITS and UNITS[unit] == unit and unit not in ("minute", "hour", "day"):
        count = -1 if word in LAST else 1 if word in NEXT else 0
        if unit == "weekend" and count:
            return Period(_weekend_beside(reading, ahead=count > 0), after + 1, unit, "relative")
        return Period(_unit_beside_now(reading, unit, count), after + 1, unit, "relative")
    return by_name(reading, after, word)


def _weekend_beside(reading: Reading, *, ahead: bool) -> Span:
    """The last weekend that is over, the next that has not begun."""
    span = unit_of(reading.now, "weekend")
    if ahead:
        return span if span.start > reading.now else _moved(span, WEEK)
    return span if span.end <= reading.now else _moved(span, -WEEK)


def _weekend(reading: Reading, place: int) -> Period | None:
    """ "over the weekend": the latest that has begun, or with a future word the first that is not over."""
    led = reading.word(place - 1) == "the" and reading.word(place - 2) in (
        "over",
        "on",
        "at",
        "during",
        "for",
        "since",
    )
    if reading.word(place) != "weekend" or not led:
        return None
    span = unit_of(reading.now, "weekend")
    if not reading.future and span.start > reading.now:
        span = _moved(span, -WEEK)
    return Period(span, place + 1, "weekend", "relative")


def _counted(reading: Reading, place: int) -> Period | None:
    """ "three weeks ago", "a few months back"; "in two days", "a week from now" of what lies ahead."""
    counted = duration(reading, place)
    if counted is None or counted.unit == "weekend":
        return None
    if reading.word(counted.after) in ("ago", "back"):
        span, after = _counted_span(reading, counted, back=True), counted.after + 1
        if reading.word(after) in ("today", "yesterday"):
            span = _moved(span, -DAY) if reading.word(after) == "yesterday" else span
            after += 1
    elif reading.words[counted.after : counted.after + 2] in (["from", "now"], ["from", "today"]):
        span, after = _counted_span(reading, counted, back=False), counted.after + 2
    elif reading.future and reading.word(place - 1) == "in":
        span, after = _counted_span(reading, counted, back=False), counted.after
    else:
        return None
    return Period(span, after, "day" if span.end - span.start == DAY else "days", "relative")


def _counted_span(reading: Reading, counted: Duration, *, back: bool) -> Span:
    """Around the day that is so many units away: the day itself, or one week or month around it, or its year."""
    least, most, unit, _ = counted
    sign = -1 if back else 1
    if unit in ("minute", "hour"):
        minutes, slack = (60, 30) if unit == "hour" else (1, 5)
        if back:
            return reading.minutes_ago(least * minutes - slack, most * minutes + slack)
        return reading.minutes_ago(-most * minutes - slack, -least * minutes + slack)
    today = day_of(reading.now)
    near, far = shifted(today, unit, sign * least), shifted(today, unit, sign * most)
    first, last = min(near, far), max(near, far)
    if unit in ("year", "decade", "century"):
        slack = 0 if unit == "year" else 1
        return years(first.year - slack, last.year - first.year + 1 + 2 * slack)
    days = {"day": 0, "week": 3, "fortnight": 3, "month": 15, "quarter": 45}[unit]
    return Span(first - DAY * days, last + DAY * (days + 1))
