"""Phrases of time as intervals: periods, times relative to now, and their combinations."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from orion_recall.when.calendar import (
    DAY,
    WEEK,
    Span,
    day_of,
    holiday,
    months,
    moved,
    nth_weekday,
    season,
    shifted,
    third,
    unit_of,
    years,
)
from orion_recall.when.dates import choice, day_of_month, numbered, of_year, year_told
from orion_recall.when.reading import Duration, Period, Reading, duration
from orion_recall.when.vocabulary import (
    BEGINNINGS,
    DAYS,
    EDGES,
    HOLIDAY_BEGINNINGS,
    LAST,
    MODIFIERS,
    MONTHS,
    NEXT,
    ORDINALS,
    PARTS,
    PAST,
    REPEATED_PARTS,
    SEASONS,
    THIS,
    UNITS,
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
    if word == "holidays" and reading.word(place - 1) == "the" and reading.word(place - 2) in _SEASON_AFTER_THE:
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
    if unit == "quarter" and 1 <= count <= 4:
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


_OWN = frozenset("my our your his her their".split())
_OVER = frozenset("over on at during for since".split())
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
    """ "last week", "this past weekend", "next Friday", "last summer"."""
    word, after = reading.word(place), place + 1
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
    before = reading.word(place - 1)
    led = before in _OWN or (before == "the" and reading.word(place - 2) in _OVER)
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
        return None
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
