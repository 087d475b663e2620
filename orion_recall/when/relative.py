"""Periods relative to now: "last week", "in the past two months", "three years ago"."""

from __future__ import annotations

from datetime import datetime

from orion_recall.when.calendar import DAY, WEEK, Span, day_of, moved, shifted, unit_of, years
from orion_recall.when.periods import by_name
from orion_recall.when.reading import Duration, Period, Reading, duration, number
from orion_recall.when.vocabulary import LAST, MODIFIERS, NEXT, THIS, UNITS, WEEKDAYS

_OWN = frozenset("my our your his her their".split())
_AFTER_OWN = frozenset(
    ("", "?", ".", "!", ",", "look", "looks", "looked", "looking", "like", "so", "been", "go", "going")
)


def of_days(first: datetime, count: int, after: int, kind: str = "relative") -> Period:
    """Whole days from the first on."""
    return Period(Span(first, first + DAY * count), after, "day" if count == 1 else "days", kind)


def unit_beside_now(reading: Reading, unit: str, count: int) -> Span:
    """The unit of now, or so many after or before it. The last weekend is the last that is over."""
    if unit == "weekend":
        span = unit_of(reading.now, unit)
        return moved(span, WEEK * count)
    if unit == "fortnight":
        today = day_of(reading.now)
        return Span(today + 2 * WEEK * count, today + 2 * WEEK * (count + 1))
    return unit_of(shifted(reading.now, unit, count), unit)


def rolling_unit(reading: Reading, place: int) -> Period | None:
    """After "in the" and the like: "last year" is the year up to now, "next month" the month from now on."""
    word, unit = reading.word(place), reading.word(place + 1)
    if unit in UNITS and UNITS[unit] == unit and unit != "weekend" and (word in LAST or word in NEXT):
        if reading.word(place + 2) in ("of", "in", "before", "after", "prior"):
            return None
        return _up_to_now(reading, Duration(1, 1, unit, place + 2), ahead=word in NEXT)
    return None


def rolling(reading: Reading, place: int) -> Period | None:
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


def modified(reading: Reading, place: int) -> Period | None:
    """ "last week", "this past weekend", "next Friday", "last summer", "this time last year"."""
    word, after = reading.word(place), place + 1
    if word in THIS and reading.word(after) == "time" and reading.word(after + 1) in MODIFIERS:
        unit = reading.word(after + 2)
        if unit in UNITS and reading.word(after + 1) in LAST:
            day = shifted(day_of(reading.now), UNITS[unit], -1)
            slack = 0 if unit == "week" else 7
            return of_days(day - DAY * slack, 1 + 2 * slack, after + 3)
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
        return Period(unit_beside_now(reading, unit, count), after + 1, unit, "relative")
    return by_name(reading, after, word)


def _weekend_beside(reading: Reading, *, ahead: bool) -> Span:
    """The last weekend that is over, the next that has not begun."""
    span = unit_of(reading.now, "weekend")
    if ahead:
        return span if span.start > reading.now else moved(span, WEEK)
    return span if span.end <= reading.now else moved(span, -WEEK)


def weekend(reading: Reading, place: int) -> Period | None:
    """ "over the weekend", "my weekend": the latest that has begun, or with a future word the first not over."""
    led = reading.word(place - 1) in _OWN or (
        reading.word(place - 1) == "the"
        and reading.word(place - 2)
        in (
            "over",
            "on",
            "at",
            "during",
            "for",
            "since",
        )
    )
    if reading.word(place) != "weekend" or not led:
        return None
    span = unit_of(reading.now, "weekend")
    if not reading.future and span.start > reading.now:
        span = moved(span, -WEEK)
    return Period(span, place + 1, "weekend", "relative")


def own_unit(reading: Reading, place: int) -> Period | None:
    """ "How was my week?", "what does my day look like?": the one of now; not "my week in Rome"."""
    unit, after = reading.word(place), reading.word(place + 1)
    if unit not in ("day", "week", "month", "year") or reading.word(place - 1) not in _OWN:
        return None
    if after not in _AFTER_OWN:
        return None
    return Period(unit_of(reading.now, unit), place + 1, "day" if unit == "day" else unit, "relative")


def ago(reading: Reading, place: int) -> Period | None:
    """ "three weeks ago", "a few months back"; "in two days", "a week from now" of what lies ahead."""
    counted = duration(reading, place)
    if counted is None:
        return _weekdays_ago(reading, place)
    if counted.unit == "weekend":
        if reading.word(counted.after) != "ago":
            return None
        span = moved(_weekend_beside(reading, ahead=False), -WEEK * (counted.most - 1))
        return Period(span, counted.after + 1, "weekend", "relative")
    if reading.word(counted.after) in ("ago", "back"):
        span, after = counted_span(reading, counted, back=True), counted.after + 1
        if reading.word(after) == "today" and counted.unit not in ("minute", "hour"):
            day = shifted(day_of(reading.now), counted.unit, -counted.most)
            span, after = Span(day, day + DAY), after + 1
    elif reading.words[counted.after : counted.after + 2] in (["from", "now"], ["from", "today"]):
        span, after = counted_span(reading, counted, back=False), counted.after + 2
    elif reading.future and reading.word(place - 1) == "in":
        span, after = counted_span(reading, counted, back=False), counted.after
    else:
        return None
    return Period(span, after, "day" if span.end - span.start == DAY else "days", "relative")


def _weekdays_ago(reading: Reading, place: int) -> Period | None:
    """ "two Fridays ago": the Friday before the last one."""
    if (counted := number(reading, place)) is None:
        return None
    _, count, after = counted
    name = reading.word(after).removesuffix("s")
    if name not in WEEKDAYS or reading.word(after + 1) != "ago" or count < 1:
        return None
    today = day_of(reading.now)
    day = today - DAY * ((today.weekday() - WEEKDAYS[name]) % 7 or 7) - WEEK * (count - 1)
    return of_days(day, 1, after + 2)


def counted_span(reading: Reading, counted: Duration, *, back: bool) -> Span:
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
