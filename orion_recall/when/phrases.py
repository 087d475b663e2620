"""Phrases of time as intervals: periods, times relative to now, and their combinations.

Dates in words and digits, and those that come again, stand at the end: 30 November, 3.5.2023, on the 15th.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from orion_recall.when import calendar
from orion_recall.when import vocabulary as vocab
from orion_recall.when.calendar import DAY, WEEK, Span, day_of, months, season, shifted, third, unit_of, whole_days
from orion_recall.when.reading import Duration, Period, Reading, duration
from orion_recall.when.vocabulary import DAY_WORDS, DAYS, MODIFIERS, MONTHS, PARTS, UNITS, WEEKDAYS

# Also verbs, names or other words: a capital or the word before them must say that they are months.
_DOUBTFUL: Final = frozenset("may march mar jan dec".split())
_SURELY: Final = frozenset("in since until during".split())
_SEASON_AFTER: Final = frozenset("in during since until early mid late -".split())
_SEASON_AFTER_THE: Final = frozenset("in during over for since before after of until by".split())
# "The night of the day before the Friday before Easter" is deep enough.
_DEEPEST: Final = 3
_OWN: Final = frozenset("my our your his her their".split())
_OVER: Final = frozenset("over on at during for since".split())
_AFTER_OWN: Final = frozenset(("", *"? . ! , look looks looked looking like so been go going".split()))
_ROLLING_AFTER: Final = frozenset("in over during within for throughout".split())
_NOT_ROLLING_BEFORE: Final = frozenset("of in before after prior".split())
_HOURS: Final = ("minute", "hour")
_BESIDE: Final = {"before": -1, "preceding": -1, "after": 1, "following": 1}


def period(read: Reading, place: int, depth: int = 0) -> Period | None:
    """The period that begins there, whatever names it; `depth` is how many others it is told by."""
    if depth > _DEEPEST:
        return None
    if read.word(place) == "the":
        place += 1
        way, unit = MODIFIERS.get(read.word(place)), read.word(place + 1)
        is_rolling = read.word(place - 2) in _ROLLING_AFTER and read.word(place + 2) not in _NOT_ROLLING_BEFORE
        if way and is_rolling and _is_unit(unit) and unit != "weekend":
            # "In the last year" is the year up to now, "in the next month" the month from now on.
            return _up_to_now(read, Duration(1, 1, unit, place + 2), ahead=way > 0)
    word = read.word(place)
    if word not in vocab.BEGINNINGS and not (word[:1].isdigit() or word[:1] == "'"):
        return None
    found = (
        _before_last(read, place)
        or _nth(read, place)
        or _beside(read, place, depth)
        or _of_a_day(read, place, depth)
        or _edge(read, place)
        or _day(read, place)
        or _rolling(read, place)
        or _modified(read, place)
        or _ago(read, place)
        or _by_name(read, place)
        or _own(read, place)
    )
    if found is not None and found.grain == "day" and read.word(found.after) in PARTS:
        return _cut(found, read.word(found.after))._replace(after=found.after + 1)
    return found


def _by_name(read: Reading, place: int, modifier: str = "") -> Period | None:
    """A holiday, month, season, weekday or date by its name; `modifier` is last, this or next, said before it."""
    word = read.word(place)
    return (
        _holiday(read, place, modifier)
        or (_month(read, place, modifier) if word in MONTHS else None)
        or (_season(read, place, modifier) if word in vocab.SEASONS else None)
        or (_weekday(read, place, modifier) if word in WEEKDAYS else None)
        or (None if modifier else numbered(read, place))
    )


def _holiday(read: Reading, place: int, modifier: str) -> Period | None:
    word = read.word(place)
    for name in vocab.HOLIDAY_BEGINNINGS.get(word, vocab.HOLIDAY_BEGINNINGS.get(word.removesuffix("'s"), ())):
        *begin, end = read.words[place : place + len(name)]
        is_said = (*begin, end.removesuffix("'s")) == (*name[:-1], name[-1].removesuffix("'s"))
        if is_said and (name != ("may", "day") or read.capital(place)):
            return of_year(read, place + len(name), partial(calendar.holiday, name), "day", modifier)
    if word == "holidays" and read.word(place - 1) == "the" and read.word(place - 2) in _SEASON_AFTER_THE:
        return of_year(read, place + 1, lambda year: whole_days(datetime(year, 12, 20), 14), word, modifier)
    return None


def _month(read: Reading, place: int, modifier: str) -> Period | None:
    word, month, after = read.word(place), MONTHS[read.word(place)], place + 1
    after += read.word(after) == "." and len(word) <= 4
    if (dated := day_of_month(read, after, month)) is not None and (not modifier or not dated.year_told):
        return dated
    of = partial(months, first=month, count=1)
    if not modifier and (told := year_told(read, after)) is not None:
        return Period(of(told[0]), told[1], "month", "period")
    if word in read.names or not (modifier or read.led(place)):
        return None
    is_clear = read.capital(place) or (word in ("may", "march") and read.word(place - 1) in _SURELY)
    return of_year(read, place + 1, of, "month", modifier) if is_clear or word not in _DOUBTFUL else None


def _season(read: Reading, place: int, modifier: str) -> Period | None:
    of = partial(season, vocab.SEASONS[read.word(place)], read.south)
    if not modifier and year_told(read, place + 1) is None:
        before = read.word(place - 1)
        if before not in _SEASON_AFTER and not (before == "the" and read.word(place - 2) in _SEASON_AFTER_THE):
            return None
    return of_year(read, place + 1, of, "season", modifier)


def _weekday(read: Reading, place: int, modifier: str) -> Period | None:
    word, weekday = read.word(place), WEEKDAYS[read.word(place)]
    if word in read.names or (len(word) < 6 and not read.capital(place)):
        return None
    if not modifier:
        if not _is_a_day(read, place):
            return None
        if (dated := _dated(read, place + 1, weekday)) is not None:
            return dated
    today = day_of(read.now)
    back = (today.weekday() - weekday) % 7
    match choice(read, modifier):
        case "last":
            day = today - DAY * (back or 7)
        case "next" if modifier == "next":  # that of the next week: the first one is called "this Friday"
            day = today + DAY * (7 - today.weekday() + weekday)
        case "next":
            day = today - DAY * back + WEEK
        case "this":
            day = today + DAY * (weekday - today.weekday())
            if read.future and day < today:  # on a Sunday "this Friday" is no more that of the week
                day += WEEK
        case "ahead":
            day = today + DAY * (-back % 7)
        case _:
            day = today - DAY * back
    after = place + 2 if read.word(place + 1) == "." and len(word) < 6 else place + 1
    return Period(whole_days(day), after, "day", year_told=bool(modifier))


def _is_a_day(read: Reading, place: int) -> bool:
    """Not "every Friday" or "Friday mornings", nor a Friday in the middle of something else's name."""
    before, following = read.word(place - 1), read.word(place + 1)
    if before in ("every", "each") or following in vocab.REPEATED_PARTS:
        return False
    ends = following in ("", ",", "?", "!", ".") or following in PARTS
    return place == 0 or ends or read.led(place) or before in vocab.WEEKDAY_LEADS


def _dated(read: Reading, place: int, weekday: int) -> Period | None:
    """The date that a weekday stands before: "Friday, 13 October 2023".

    Without a year it is the last one or the next, whichever is that weekday. It is chosen by the tense if neither
    or both are, and if what was is asked for: then the weekday is told wrong.
    """
    one = _date(read, place)
    if one is None or one.year_told or one.span.start.weekday() == weekday:
        return one
    if not read.future and not vocab.PAST.isdisjoint(read.words):
        return one
    other = _date(read.at(read.now, future=not read.future), place)
    return other if other is not None and other.span.start.weekday() == weekday else one


def _date(read: Reading, place: int) -> Period | None:
    place = read.skip(place, ",", "the")
    found = numbered(read, place) or (_month(read, place, "") if read.word(place) in MONTHS else None)
    return found if found is not None and found.grain == "day" else None


def _nth(read: Reading, place: int) -> Period | None:
    """ "first week of May", "last Friday in June 2022", "second half of 2021", "third quarter"."""
    count = vocab.ORDINALS.get(read.word(place))
    if count is None and (match := re.fullmatch(r"([1-5])(?:st|nd|rd|th)", read.word(place))):
        count = int(match[1])
    if count is None:
        return None
    unit, after = read.word(place + 1), place + 2
    if unit == "quarter" and 1 <= count <= 4:
        return of_year(read, after, partial(quarter, count), unit)
    if read.word(after) not in ("of", "in") or (of := _whole(read, after + 1)) is None:
        return None
    span, grain = of.span, unit
    if unit in WEEKDAYS:
        part, grain = whole_days(calendar.nth_weekday(span, WEEKDAYS[unit], count)), "day"
    elif unit == "weekend":
        part = whole_days(calendar.nth_weekday(span, 5, count), 2)
    elif unit in ("week", "day"):
        size = WEEK if unit == "week" else DAY
        start = span.start + size * (count - 1) if count > 0 else span.end - size
        part = Span(start, start + size)
    elif unit == "half" and count in (1, 2, -1):
        middle = day_of(span.start + (span.end - span.start) / 2)
        if of.grain == "year":
            middle = shifted(span.start, "month", 6)
        part = Span(span.start, middle) if count == 1 else Span(middle, span.end)
    else:
        return None
    return of._replace(span=part, grain=grain) if part.start < span.end else None


def _whole(read: Reading, place: int) -> Period | None:
    """What a part is of: a month, season, year, or the last, this or next one of them."""
    place += read.word(place) == "the"
    word = read.word(place)
    if word in ("month", "year", "quarter", "decade", "week"):
        return Period(unit_of(read.now, word), place + 1, word)
    return _modified(read, place) if word in MODIFIERS else _by_name(read, place)


def _is_unit(unit: str) -> bool:
    """Whether it is one of a unit's words in the singular."""
    return UNITS.get(unit) == unit


def _beside_now(read: Reading, unit: str, count: int) -> Period:
    """The unit of now, or so many after or before it, without the place after the words."""
    today = day_of(read.now)
    if unit == "fortnight":
        return Period(whole_days(today + 2 * WEEK * count, 14), 0, unit)
    span = unit_of(read.now, unit).moved(WEEK * count) if unit == "weekend" else None
    return Period(span or unit_of(shifted(read.now, unit, count), unit), 0, unit)


def _rolling(read: Reading, place: int) -> Period | None:
    """ "last two weeks", "past few days", "past year", "next 3 months"."""
    word, unit = read.word(place), read.word(place + 1)
    way = MODIFIERS.get(word)
    if not way or unit in ("a", "an"):
        return None
    counted = duration(read, place + 1)
    if counted is None and word == "past" and _is_unit(unit):
        counted = Duration(1, 1, unit, place + 2)
    return _up_to_now(read, counted, ahead=way > 0) if counted is not None and counted.unit != "weekend" else None


def _up_to_now(read: Reading, counted: Duration, *, ahead: bool) -> Period:
    today, most = day_of(read.now), counted.most
    if counted.unit in _HOURS:
        minutes = most * (60 if counted.unit == "hour" else 1)
        span = read.minutes_ago(-minutes, 0) if ahead else read.minutes_ago(0, minutes)
    elif ahead:
        span = Span(today, shifted(today, counted.unit, most) + DAY)
    else:
        span = Span(shifted(today, counted.unit, -most), today + DAY)
    return Period(span, counted.after, "rolling")


def _modified(read: Reading, place: int) -> Period | None:
    """ "last week", "this past weekend", "next Friday", "last summer"."""
    word, after = read.word(place), place + 1
    if word not in MODIFIERS:
        return None
    if MODIFIERS[word] == 0 and MODIFIERS.get(read.word(after)):
        word, after = read.word(after), after + 1
    unit = read.word(after).removesuffix("'s")
    if not _is_unit(unit) or unit in (*_HOURS, "day"):
        return _by_name(read, after, word)
    count = MODIFIERS[word]
    if unit == "weekend" and count:
        return Period(_weekend_beside(read, ahead=count > 0), after + 1, unit)
    return _beside_now(read, unit, count)._replace(after=after + 1)


def _weekend_beside(read: Reading, *, ahead: bool) -> Span:
    """The last weekend that is over, the next that has not begun."""
    span = unit_of(read.now, "weekend")
    if ahead:
        return span if span.start > read.now else span.moved(WEEK)
    return span if span.end <= read.now else span.moved(-WEEK)


def _own(read: Reading, place: int) -> Period | None:
    """ "over the weekend", "my weekend": the latest that has begun, or with a future word the first not over.

    "How was my week?", "what does my day look like?": the one of now; not "my week in Rome".
    """
    unit, before, is_own = read.word(place), read.word(place - 1), read.word(place - 1) in _OWN
    if unit == "weekend" and (is_own or (before == "the" and read.word(place - 2) in _OVER)):
        span = unit_of(read.now, unit)
        return Period(span.moved(-WEEK) if not read.future and span.start > read.now else span, place + 1, unit)
    if unit not in ("day", "week", "month", "year") or not is_own or read.word(place + 1) not in _AFTER_OWN:
        return None
    return Period(unit_of(read.now, unit), place + 1, unit)


def _ago(read: Reading, place: int) -> Period | None:
    """ "three weeks ago", "a few months back"; "in two days", "a week from now" of what lies ahead."""
    if (counted := duration(read, place)) is None:
        return None
    unit, after = counted.unit, counted.after
    if unit == "weekend":
        if read.word(after) != "ago":
            return None
        return Period(_weekend_beside(read, ahead=False).moved(-WEEK * (counted.most - 1)), after + 1, unit)
    if read.word(after) in ("ago", "back"):
        if read.word(after + 1) == "today" and unit not in _HOURS:
            return _whole_day(shifted(day_of(read.now), unit, -counted.most), after + 2)
        return _of_days(_counted(read, counted, back=True), after + 1)
    if read.follow(after, "from", "now") or read.follow(after, "from", "today"):
        return _of_days(_counted(read, counted, back=False), after + 2)
    if read.future and read.word(place - 1) == "in":
        return _of_days(_counted(read, counted, back=False), after)
    return None


def _of_days(span: Span, after: int) -> Period:
    return Period(span, after, "day" if span.end - span.start == DAY else "days")


def _counted(read: Reading, counted: Duration, *, back: bool) -> Span:
    """Around the day that is so many units away: the day itself, or one week or month around it, or its year."""
    least, most, unit, _ = counted
    if unit in _HOURS:
        minutes, slack = (60, 30) if unit == "hour" else (1, 5)
        if back:
            return read.minutes_ago(least * minutes - slack, most * minutes + slack)
        return read.minutes_ago(-most * minutes - slack, -least * minutes + slack)
    today, sign = day_of(read.now), -1 if back else 1
    first, last = sorted(shifted(today, unit, sign * count) for count in (least, most))
    if unit in ("year", "decade", "century"):
        slack = 0 if unit == "year" else 1
        return calendar.years(first.year - slack, last.year - first.year + 1 + 2 * slack)
    around = {"day": 0, "week": 3, "fortnight": 3, "month": 15, "quarter": 45}[unit]
    return Span(first - DAY * around, last + DAY * (around + 1))


def _whole_day(day: datetime, after: int) -> Period:
    return Period(whole_days(day), after, "day")


def _cut(of: Period, part: str) -> Period:
    """A part of a day; of several days that of the first."""
    start, (first, last) = of.span.start, PARTS[part]
    return of._replace(span=Span(start + timedelta(hours=first), start + timedelta(hours=last)), grain="part")


def _day(read: Reading, place: int) -> Period | None:
    """ "yesterday", "last night", "tonight", "this morning", "the day before yesterday"."""
    word, following, today = read.word(place).removesuffix("'s"), read.word(place + 1), day_of(read.now)
    if word == "day":
        count = {("before", "yesterday"): -2, ("after", "tomorrow"): 2}.get((following, read.word(place + 2)))
        return _whole_day(today + DAY * count, place + 3) if count is not None else None
    if word == "last" and following == "night":
        return _cut(_whole_day(today - DAY, place + 2), "night")
    if word == "tonight":
        return _cut(_whole_day(today, place + 1), "night")
    if MODIFIERS.get(word) == 0 and following in PARTS:
        return _cut(_whole_day(today, place + 2), following)
    return _whole_day(today + DAY * DAYS[word], place + 1) if word in DAYS else None


def _of_a_day(read: Reading, place: int, depth: int) -> Period | None:
    """ "morning of 7 July"; "week of October 12th", "weekend of 14 November": the one that the day is in."""
    unit, link = read.word(place), read.word(place + 1)
    if link != "of" and not (link == "on" and unit in PARTS):
        return None
    if unit not in PARTS and unit not in ("week", "weekend", "month", "year"):
        return None
    found = period(read, place + 2, depth + 1)
    if found is None or found.grain != "day":
        return None
    return _cut(found, unit) if unit in PARTS else found._replace(span=unit_of(found.span.start, unit), grain=unit)


def _before_last(read: Reading, place: int) -> Period | None:
    """ "the week before last", "the Friday before last", "the year after next"."""
    unit, after = read.word(place), place + 3
    count = {("before", "last"): -2, ("after", "next"): 2}.get((read.word(place + 1), read.word(place + 2)))
    if count is None:
        return None
    if unit == "night" and count < 0:
        return _cut(_whole_day(day_of(read.now) - 2 * DAY, after), "night")
    if unit in WEEKDAYS:
        found = _by_name(read, place, "last" if count < 0 else "next")
        return (
            found._replace(span=found.span.moved(WEEK * (count // 2)), after=after) if found is not None else None
        )
    unit = UNITS.get(unit, "day")
    return None if unit in (*_HOURS, "day") else _beside_now(read, unit, count)._replace(after=after)


def _beside(read: Reading, place: int, depth: int) -> Period | None:
    """ "the Friday before Easter", "the week after 3 May", "last weekend before April 10", "two days after …"."""
    start = place + 1 if read.word(place) in MODIFIERS or read.word(place) == "first" else place
    unit, after = read.word(start), start + 1
    if (counted := duration(read, start)) is not None and counted.unit != "weekend":
        after = counted.after
    elif unit not in WEEKDAYS and unit not in UNITS and unit not in PARTS:
        return None
    way = _BESIDE.get(read.word(after))
    if read.follow(after, "prior", "to"):
        way, after = -1, after + 1
    if way is None or (anchor := period(read, after + 1, depth + 1)) is None:
        return None
    if counted is None:
        span = _next_to(anchor.span, unit, back=way < 0)
    else:
        base = anchor.span.start if way < 0 else anchor.span.end - DAY
        if anchor.grain == "day":  # of a holiday of several days that in the middle
            base = anchor.span.start + DAY * ((anchor.span.end - anchor.span.start).days // 2)
        span = _counted(read.at(base, future=False), counted, back=way < 0)
    grain = "part" if counted is None and unit in PARTS else "day" if span.end - span.start == DAY else "days"
    return Period(span, anchor.after, grain, anchor.kind, anchor.year_told)


def _next_to(anchor: Span, unit: str, *, back: bool) -> Span:
    """The weekday, part of a day, weekend or unit that is next before or after a span."""
    day = anchor.start - DAY if back else anchor.end
    if unit in PARTS:
        return _cut(_whole_day(day_of(day), 0), unit).span
    if unit in WEEKDAYS:
        away = WEEKDAYS[unit] - day.weekday()
        return whole_days(day - DAY * (-away % 7) if back else day + DAY * (away % 7))
    unit = UNITS[unit]
    if unit == "weekend":
        found = unit_of(anchor.start if back else anchor.end, unit)
        if back:
            return found if found.end <= anchor.start else found.moved(-WEEK)
        return found if found.start >= anchor.end else found.moved(WEEK)
    return (
        Span(shifted(anchor.start, unit, -1), anchor.start)
        if back
        else Span(anchor.end, shifted(anchor.end, unit, 1))
    )


def _edge(read: Reading, place: int) -> Period | None:
    """ "early May", "mid-August", "the end of last year", "late in 2021"; "earlier this week", "later today"."""
    word, after = read.word(place), place + 1
    if word in ("earlier", "later"):
        found = _modified(read, after) or _day(read, after)
        if found is None or not found.span.start < read.now < found.span.end:
            return None
        span = Span(found.span.start, read.now) if word == "earlier" else Span(read.now, found.span.end)
        return found._replace(span=span, grain="part")
    if word in ("early", "mid", "late"):
        after = read.skip(after, "-", "in", "the")
    elif word not in vocab.EDGES or read.word(after) != "of":
        return None
    else:
        after += 1
    found = _whole(read, after)
    if found is None or found.grain in ("day", "hour", "part"):
        return None
    return found._replace(span=third(found.span, vocab.EDGES[word]), grain="third")


_YEAR: Final = re.compile(r"(?:1[5-9]|20)\d\d")
_SHORT_YEAR: Final = re.compile(r"'(\d\d)")
_LEAP = 2024
_DAY_NUMBER = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)?")
ORDINAL_DAY: Final = re.compile(r"([12]?\d|3[01])(?:st|nd|rd|th)")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})[-./](\d{1,4})(?:t(\d{1,2}):\d\d.*)?", re.DOTALL)
_MONTH_NUMBER = re.compile(r"(?:(\d{4})[-/](\d\d)|(\d{1,2})/(\d{4}))")
_QUARTER: Final = re.compile(r"q([1-4])")
_TO: Final = ("-", "–", "to")


def _whole_year(digits: str) -> int:
    """1970 to 2069 from two digits."""
    return int(digits) + (1900 if int(digits) >= 70 else 2000)


def choice(read: Reading, modifier: str) -> str:
    """Which one of a recurring period: by the word before it (last, this, next), else by the tense."""
    if modifier:
        return ("this", "next", "last")[MODIFIERS[modifier]]
    return "ahead" if read.future else "begun"


def year_told(read: Reading, place: int) -> tuple[int, int] | None:
    """The year after a month, date or holiday ("2022", ", 2022", "two years ago"), and the place after it."""
    place = read.skip(place, "of", "in", ",", "the", ".")
    word = read.word(place)
    if _YEAR.fullmatch(word):
        return int(word), place + 1
    if (short := _SHORT_YEAR.fullmatch(word)) is not None:
        return _whole_year(short[1]), place + 1
    if read.word(place + 1) in ("year", "year's") and word in MODIFIERS:
        return read.now.year + MODIFIERS[word], place + 2
    past = duration(read, place)
    if past is not None and past.unit == "year" and past.least == past.most and read.word(past.after) == "ago":
        return read.now.year - past.least, past.after + 1
    return None


def of_year(read: Reading, after: int, of: Callable[[int], Span], grain: str, modifier: str = "") -> Period:
    """A yearly period in the year that is named or chosen."""
    if not modifier and (told := year_told(read, after)) is not None:
        return Period(of(told[0]), told[1], grain, "date" if grain == "day" else "period")
    span = calendar.yearly(of, choice(read, modifier), read.now)
    return Period(span, after, grain, "relative" if modifier else "period", year_told=bool(modifier))


def quarter(count: int, year: int) -> Span:
    return months(year, count * 3 - 2, 3)


def numbered(read: Reading, place: int) -> Period | None:
    """What begins with a number: a date in figures, a day and its month, a year, a decade, a quarter."""
    word = read.word(place)
    if word[:1] not in ("q", "'") and not word[:1].isdigit():
        return _day_and_month(read, place)
    if match := _DATE.fullmatch(word):
        return _in_figures(read, place, match)
    if match := _MONTH_NUMBER.fullmatch(word):
        year, month = int(match[1] or match[4]), int(match[2] or match[3])
        return Period(months(year, month, 1), place + 1, "month", "period") if 1 <= month <= 12 else None
    if match := _QUARTER.fullmatch(word):
        return of_year(read, place + 1, partial(quarter, int(match[1])), "quarter")
    if match := re.fullmatch(r"(?:(\d\d)|')?(\d)0s", word):
        century, tens = match[1], int(match[2]) * 10
        first = int(century) * 100 + tens if century else tens + (2000 if tens < 30 else 1900)
        return Period(calendar.years(first, 10), place + 1, "decade", "period")
    is_led = place == 0 or read.led(place)
    if match := _SHORT_YEAR.fullmatch(word):
        return Period(calendar.years(_whole_year(match[1])), place + 1, "year", "period") if is_led else None
    if (dated := _day_and_month(read, place)) is not None:
        return dated
    if not _YEAR.fullmatch(word):
        return _day_alone(read, place)
    if match := _QUARTER.fullmatch(read.word(place + 1)):
        return Period(quarter(int(match[1]), int(word)), place + 2, "quarter", "period")
    is_led = is_led or read.word(place - 1) == "year"
    return Period(calendar.years(int(word)), place + 1, "year", "period") if is_led else None


def _in_figures(read: Reading, place: int, match: re.Match[str]) -> Period | None:
    """Year first where it has four digits; else the day, but with slashes the month, unless that cannot be."""
    one, other, last = int(match[1]), int(match[3]), int(match[4])
    if len(match[1]) == 4:
        year, month, day = one, other, last
    elif len(match[1]) > 2 or len(match[4]) == 3:
        return None
    else:
        year = last if len(match[4]) == 4 else _whole_year(match[4])
        day, month = (one, other) if match[2] != "/" or read.day_first else (other, one)
        if month > 12:
            day, month = month, day
    try:
        start = datetime(year, month, day)
    except ValueError:
        return None
    if match[5] is not None and int(match[5]) < 24:
        start = start.replace(hour=int(match[5]))
        return Period(Span(start, start + timedelta(hours=1)), place + 1, "hour", "date")
    return Period(whole_days(start), place + 1, "day", "date")


def _day_and_month(read: Reading, place: int) -> Period | None:
    """ "7 May 2023", "7th of May", "3-5 May", "first of May"."""
    if (counted := _day_numbers(read, place)) is None:
        return None
    first, last, after = counted
    after += read.word(after) in ("of", "day")
    if (month := MONTHS.get(read.word(after))) is None:
        return None
    after += 2 if read.word(after + 1) == "." and len(read.word(after)) <= 4 else 1
    return _days(read, after, month, first, last)


def day_of_month(read: Reading, place: int, month: int) -> Period | None:
    """After a month: "7", "7th, 2023", "the 7th", "3-5"."""
    counted = _day_numbers(read, place + (read.word(place) == "the"))
    return None if counted is None else _days(read, counted[2], month, *counted[:2])


def _day_numbers(read: Reading, place: int) -> tuple[int, int, int] | None:
    """The first and the last day of a month in figures or words ("7th", "3-5", "twenty-first"), the place after."""
    word, after = read.word(place), place + 1
    if (match := _DAY_NUMBER.fullmatch(word)) is not None:
        first = int(match[1])
    elif word in ("twenty", "thirty"):
        after += read.word(after) == "-"
        last = DAY_WORDS.get(read.word(after), 10)
        first, after = ((20 if word == "twenty" else 30) + last if last < 10 else 0), after + 1
    else:
        first = DAY_WORDS.get(word, 0)
    if not first:
        return None
    other = _DAY_NUMBER.fullmatch(read.word(after + 1)) if read.word(after) in _TO else None
    is_range = other is not None and int(other[1]) >= first
    return (first, int(other[1]), after + 2) if other is not None and is_range else (first, first, after)


def _days(read: Reading, after: int, month: int, first: int, last: int) -> Period | None:
    """The days of a month; of a month that has them in no year (30 February) all of it."""
    if _month_days(month, first, last, _LEAP) is None:
        return of_year(read, after, partial(months, first=month, count=1), "month")
    if (told := year_told(read, after)) is not None:
        span = _month_days(month, first, last, told[0]) or months(told[0], month, 1)
        return Period(span, told[1], "day", "date")

    def of(year: int) -> Span:
        # The 29th of February is that of the nearest leap year before, eight years back at most.
        found = (_month_days(month, first, last, year - back) for back in range(9))
        return next((span for span in found if span is not None), months(year, month, 1))

    return Period(calendar.yearly(of, choice(read, ""), read.now), after, "day", "date", year_told=False)


def _month_days(month: int, first: int, last: int, year: int) -> Span | None:
    try:
        return Span(datetime(year, month, first), datetime(year, month, last) + DAY)
    except ValueError:
        return None


def _day_alone(read: Reading, place: int) -> Period | None:
    """ "on the 15th", "the 15th and the 16th", at the end of a clause: the latest that has begun, or the next."""
    match, following = ORDINAL_DAY.fullmatch(read.word(place)), read.word(place + 1)
    other = read.word(place + 3 if read.word(place + 2) == "the" else place + 2)
    is_pair = following == "and" and ORDINAL_DAY.fullmatch(other) is not None
    if match is None or not (is_pair or following in ("", ",", ".", "?", "!")):
        return None
    before = place - 2 if read.word(place - 1) == "the" else place - 1
    lead = read.word(before)
    if before == place - 2 and lead in ("on", "of", "since", "until", "by", ",", "for"):
        is_a_day = not is_pair or lead != "of"
    else:
        is_a_day = lead == "and" and ORDINAL_DAY.fullmatch(read.word(before - 1)) is not None
    day = nearest(numbered_days(read.now, int(match[1])), read.now, ahead=read.future) if is_a_day else None
    return None if day is None else Period(whole_days(day), place + 1, "day", "date", year_told=False)


def numbered_days(now: datetime, number: int) -> list[datetime]:
    """The days of that number in the months around now, in order."""
    first = day_of(now).replace(day=1)
    found = ((start, start + DAY * (number - 1)) for start in (shifted(first, "month", n) for n in range(-3, 5)))
    return [day for start, day in found if number and day.month == start.month]


def nearest(days: Sequence[datetime], now: datetime, *, ahead: bool) -> datetime | None:
    """Of days in their order the first that is not over, or the last that has begun."""
    today = day_of(now)
    fitting = (day for day in days if day >= today) if ahead else (day for day in reversed(days) if day <= today)
    return next(fitting, None)
