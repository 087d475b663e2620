"""The times that a text tells, relative to when it was said: days, longer times, and those that come every week.

Clock times stand at the end: "14:15", "at 3 pm", "noon", "from 9 to 10:30", as minutes of a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from orion_recall.values import TimeMention
from orion_recall.when import vocabulary as vocab
from orion_recall.when.calendar import DAY, WEEK, Span, day_of, whole_days
from orion_recall.when.direction import Direction, direction
from orion_recall.when.phrases import ORDINAL_DAY, nearest, numbered_days, period
from orion_recall.when.reading import Period, Reading, reading
from orion_recall.when.vocabulary import MODIFIERS, PARTS, RANGING, WEEKDAYS

# A sentence ends before a capital (not "3. Dezember"), a line at its end; what is longer is read in pieces.
_SENTENCE: Final = re.compile(r"(?<=[.!?…])(?<!\d\.)[\"'”’)]*\s+(?=[\"'“‘(]*[^\W\da-z_])|\n")
_LONGEST: Final = 1500
# A clock time so many words behind its day is of something else; of days alone each would look through the rest.
_MOST_BETWEEN: Final = 40
_ISO_CLOCK: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}[Tt](\d{1,2}):(\d\d)")
_OPEN: Final = frozenset(("since", "until", "till", "by", "before", "after", "from"))
_YEAR_LEADS: Final = frozenset("in since during until till by year early mid late".split())
_FIGURES: Final = re.compile(r"\d{1,2}[.-]\d{1,2}[.-](\d{1,2})")
_LEADS_A_DATE: Final = frozenset("on by until till since from dated".split())
# A year of two digits is of these years around now.
_SHORT_YEARS: Final = 6
# How much of the future a time that is open at its end is told for.
_OPEN_END: Final = timedelta(days=7)
_LONGEST_RANGE: Final = timedelta(days=40 * 366)
_MOVES: Final = frozenset(
    "moved moves move moving shifted shift pushed postponed rescheduled delayed changed switched brought".split()
)
_WITH_CONTEXT: Final = ("day", "month", "weekend")


class _Told(NamedTuple):
    """A time of the local clock, with the places of its words; of the `grain` "none" the words name no time."""

    span: Span
    first: int
    after: int
    grain: str
    absolute: bool = False
    weekly: bool = False


def told_times(text: str, now: datetime | None, *, most: int = 12) -> list[TimeMention]:
    """The times of a text that was said at `now`, each once; without `now` only those that do not depend on it."""
    anchor = datetime(2000, 1, 1, tzinfo=UTC) if now is None else now
    found: dict[tuple[float, float, bool], TimeMention] = {}
    context: Span | None = None
    for sentence in (
        one[at : at + _LONGEST] for one in _SENTENCE.split(text) for at in range(0, len(one), _LONGEST)
    ):
        read, place = reading(sentence, anchor), 0
        words = len(read.words) if read.may_name_times else 0
        while place < words:
            told: list[_Told] = []
            # Beyond the years that a calendar has: "0001-01-01T00:00+14:00".
            with suppress(ValueError, OverflowError):
                told = _at(read, place, context)
            for one in told if now is not None else [one for one in told if one.absolute]:
                with suppress(ValueError, OverflowError):
                    for mention in _mentions(read, one):
                        found.setdefault((mention.since, mention.until, mention.weekly), mention)
            if told and told[-1].grain in _WITH_CONTEXT:
                context = told[-1].span
            place = max(told[-1].after if told else 0, place + 1)
        if len(found) >= most:
            break
    return list(found.values())[:most]


def _mentions(read: Reading, one: _Told) -> Iterator[TimeMention]:
    """The time with its clock times, if it is a day with some, else as it is."""
    if one.grain == "none":
        return
    start, end = one.span
    first, last = read.places[one.first][0], read.places[one.after - 1][1]
    if (iso := _ISO_CLOCK.match(read.text, first)) is not None and int(iso[1]) < 24:
        start = day_of(start) + timedelta(hours=int(iso[1]), minutes=int(iso[2]) % 60)
        yield _mention(read, first, last, Span(start, start + timedelta(minutes=1)))
        return
    is_day = one.grain in ("day", "part") and end - start <= DAY
    clocks = [*_clocks(read, one)] if is_day else []
    if not clocks:
        yield _mention(read, first, last, one.span, weekly=one.weekly)
        return
    day = day_of(start)
    if read.word(one.first) in WEEKDAYS and day == day_of(read.now):
        over = max(day + timedelta(minutes=clock.end) for clock, _, _ in clocks)
        day += WEEK if over <= read.now else timedelta()  # "Monday at nine", said on a Monday at noon
    for clock, first, last in clocks:
        span = Span(day + timedelta(minutes=clock.start), day + timedelta(minutes=clock.end))
        yield _mention(read, first, last, span, weekly=one.weekly)


def _clocks(read: Reading, one: _Told) -> Iterator[tuple[Clock, int, int]]:
    """The clock times beside a day and up to the next time of the sentence, with the characters of the words."""
    first, last = read.places[one.first][0], read.places[one.after - 1][1]
    pm_until = 11 if one.grain == "part" and one.span.start.hour >= 12 else 0
    if (before := clock_before(read.text, first)) is not None:
        yield before[1], before[0], last
    began = last
    if (at := clock_after(read.text, last, pm_until=pm_until)) is not None:
        yield at, first, at.after
        began = at.after
    for place in range(one.after, min(len(read.words), one.after + _MOST_BETWEEN)):
        if _is_a_day(read, place):
            return
        start, word = read.places[place][0], read.word(place)
        if start < began or not (word in ("at", "from") or word.isdecimal()):
            continue
        found = clock_after(read.text, start, pm_until=pm_until)
        if found is not None and not (start and read.text[start - 1] in ":.-/"):
            yield found, start, found.after
            began = found.after


def _is_a_day(read: Reading, place: int) -> bool:
    word = read.word(place)
    if word in WEEKDAYS or word in vocab.DAYS:
        return True
    with suppress(ValueError, OverflowError):  # "4500 years ago": beyond the years that a calendar has
        return word not in PARTS and period(read, place) is not None
    return False


def _mention(read: Reading, first: int, last: int, span: Span, *, weekly: bool = False) -> TimeMention:
    since, until = map(read.instant, span)
    said = " ".join(read.text[first:last].split())
    return TimeMention(text=said, since=since, until=max(until, since + 60), weekly=weekly)


def _at(read: Reading, place: int, context: Span | None) -> list[_Told]:
    """The times that the words from there on tell: one, or several that are listed."""
    if weekly := _every_week(read, place):
        return weekly
    word = read.word(place)
    if word in _OPEN and (opened := _opened(read, place, context)) is not None:
        return [opened]
    if word == "the" and (alone := _days_alone(read, place, context)):
        return alone
    if (listed := _two_days(read, place)) is not None:
        return listed
    if (one := _single(read, place)) is None:
        return []
    is_range = read.word(one.after) in RANGING and one.grain in ("day", "month", "year", "part")
    return [(_ranged(read, place, one) if is_range else None) or one]


def _two_days(read: Reading, place: int) -> list[_Told] | None:
    """ "3 and 4 December": the second says the month of both."""
    if not read.word(place).isdecimal() or read.word(place + 1) not in ("and", "&", "or"):
        return None
    last, number = _single(read, place + 2), int(read.word(place)[:4])
    if last is None or last.grain != "day" or last.after < place + 4 or not 0 < number < last.span.start.day:
        return None
    day = last.span.start.replace(day=number)
    return [_Told(whole_days(day), place, place + 1, "day", last.absolute), last]


def _single(read: Reading, place: int) -> _Told | None:
    """One period, read in the direction of its clause."""
    is_in = read.word(place) == "in"
    past = period(read.at(read.now, future=False), place)
    weekday = _weekday_in(read, place)
    if past is None and not is_in and weekday is None:
        return None  # most words are no time, and to know the direction of a clause takes all of its words
    way = direction(read.words, place, read.skip(place + 1, "the", "next", "last", "this"))
    if is_in and way != "past":
        counted = period(read.at(read.now, future=True), place + 1)
        is_counted = counted is not None and counted.kind == "relative" and counted.grain in ("day", "days", "hour")
        return _as_found(counted, place) if counted is not None and is_counted else None
    if (one := _weekday_and_number(read, place, way)) is not None:
        return one
    if past is None or not _is_sure(read, place, past):
        return None
    if weekday is not None and past.grain in ("day", "part") and past.kind == "relative":
        return _as_found(_moved_weekday(read, place, past, weekday, way), place)
    ahead = None if past.year_told else period(read.at(read.now, future=True), place)
    return _as_found(past if ahead is None else _nearer(read, place, past, ahead, way), place)


def _nearer(read: Reading, place: int, past: Period, ahead: Period, way: Direction | None) -> Period:
    """Of a time that comes every year the last or the next one; what is told lies ahead more often."""
    weekday = _weekday_in(read, place)
    if weekday is None:  # "they gave me Friday 5 June": the weekday has no "on", and is no time by itself
        weekday = WEEKDAYS.get(read.word(place - 1))
    fitting = [one for one in (past, ahead) if one.span.start.weekday() == weekday]
    if len(fitting) == 1:
        return fitting[0]  # "Saturday 3 October" says its year
    if way == "past":
        return past
    is_near = ahead.span.start - read.now <= 3 * (read.now - past.span.end) or past.span.end > read.now
    # "The invoice of 14 November" may be of the last one, whatever the verb.
    is_ahead = is_near or (way == "ahead" and read.word(place - 1) not in ("of", "dated"))
    return ahead if is_ahead else past


def _as_found(one: Period, place: int) -> _Told:
    start, end = one.span
    if one.grain == "part":  # a night is of its day: what is on tonight is not on tomorrow
        end = min(end, day_of(start) + DAY)
    return _Told(Span(start, end), place, one.after, one.grain, one.year_told and one.kind in ("date", "period"))


def _is_sure(read: Reading, place: int, one: Period) -> bool:
    """Not a version ("4.2.11"), nor a bare number that could be a year ("for 2000 euros")."""
    said, before = read.said(place, one.after), read.word(place - 1)
    if (figures := _FIGURES.fullmatch(said)) is not None:
        near = abs(one.span.start.year - read.now.year) <= _SHORT_YEARS
        return len(figures[1]) == 2 and near and before in _LEADS_A_DATE
    if one.grain == "year" and said.isdecimal():
        is_ranging = read.word(place + 1) in RANGING or read.word(place - 2).isdecimal()  # "from 2001 to 2004"
        return before in _YEAR_LEADS or (before in ("from", "between", *RANGING) and is_ranging)
    return True


def _one_or_alone(read: Reading, place: int, context: Span | None) -> _Told | None:
    return _single(read, place) or next(iter(_days_alone(read, place, context)), None)


def _opened(read: Reading, place: int, context: Span | None) -> _Told | None:
    """ "since March" up to now, "until Friday" from now on, "by Friday" that day, "from Monday to Wednesday"."""
    link, after = read.word(place), place + 1
    if link == "since":
        one = period(read.at(read.now, future=False), after)
        weekday = _weekday_in(read, after)
        if one is not None and weekday is not None and one.kind == "relative" and one.grain in ("day", "part"):
            one = _moved_weekday(read, after, one, weekday, "past")
        if one is None or one.span.start >= read.now:
            return None
        return _Told(Span(one.span.start, read.now), place, one.after, "open")
    if (found := _one_or_alone(read, after, context)) is None:
        return None
    (start, end), opened = found.span, found._replace(first=place, grain="open")
    if link == "from" and read.word(found.after) in RANGING:
        if not _MOVES.isdisjoint(read.words[max(0, place - 8) : place]):
            # "Moved from Tuesday to Thursday" is on Thursday.
            return _one_or_alone(read, found.after + 1, context) or found
        return _ranged(read, after, found) or found._replace(first=place)
    if link in ("from", "by"):
        return found._replace(first=place)
    if link in ("until", "till"):
        begin = day_of(read.now) if end > read.now else start - _OPEN_END
        return opened._replace(span=Span(min(begin, start), end))
    return opened._replace(span=Span(start - DAY, start) if link == "before" else Span(end, end + _OPEN_END))


def _ranged(read: Reading, place: int, one: _Told) -> _Told | None:
    """ "Monday to Wednesday", "3 May until 5 May": both ends are inside; the second comes after the first."""
    after, start = one.after + 1, one.span.start
    alone = _days_alone(read, after, one.span) if read.word(after) == "the" else []
    if (other := alone[0] if alone else _single(read.at(start, future=True), after)) is None:
        return None
    while not alone and other.span.end <= start and not other.absolute and _weekday_in(read, after) is not None:
        other = other._replace(span=other.span.moved(WEEK))
    end = other.span.end
    if end <= start or end - start > _LONGEST_RANGE:
        return None
    if not one.absolute and other.absolute:  # "3 May to 5 May 2023"
        again = period(read.at(end - DAY, future=False), place)
        if again is not None and again.span.start < other.span.start:
            start = again.span.start
    return _Told(Span(start, end), one.first, other.after, "days", one.absolute or other.absolute)


_PLURALS: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if len(name) > 5}
_NAMES: Final = {**WEEKDAYS, **_PLURALS}
_GROUPS: Final = {
    **dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("weekend", "weekends"), (5, 6)),
}
_NOT_BEFORE: Final = vocab.NUMBERS.keys() | vocab.VAGUE.keys() | MODIFIERS.keys() | {"all", "many"}
_JOINED: Final = ("and", "or", "&", ",", "the")


def _every_week(read: Reading, place: int) -> list[_Told]:
    """Weekdays that come every week, each from the day of saying on; nothing of those that are over."""
    weekdays, after = _weekly(read, place)
    if not weekdays:
        return []
    word = read.word(after)
    part = word.removesuffix("s") if word in vocab.REPEATED_PARTS else word
    after += part in PARTS
    if direction(read.words, place, after) == "past":
        return [_Told(Span(read.now, read.now), place, after, "none")]
    first, last = (timedelta(hours=hour) for hour in PARTS.get(part, (0, 24)))
    today, grain = day_of(read.now), "part" if part in PARTS else "day"
    days = (today + DAY * ((weekday - today.weekday()) % 7) for weekday in weekdays)
    return [_Told(Span(day + first, day + last), place, after, grain, weekly=True) for day in days]


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
        is_repeated = read.word(place + 1) in vocab.REPEATED_PARTS or (word[-1] == "s" and before in ("at", "on"))
        return (_GROUPS[word] if is_repeated else ()), place + 1
    if word in _PLURALS:
        return _listed(read, place, _PLURALS)
    listed = _listed(read, place, WEEKDAYS) if word in WEEKDAYS else ((), place)
    return listed if read.word(listed[1]) in vocab.REPEATED_PARTS else ((), place)


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


def _weekday_in(read: Reading, place: int) -> int | None:
    """The weekday that a period which begins there is named by; "last", "this" and "next" may stand before it."""
    for at in (place, place + 1, place + 2):
        word = read.word(at)
        if word in WEEKDAYS:
            return WEEKDAYS[word]
        if word not in MODIFIERS and word != "the":
            return None
    return None


def _moved_weekday(read: Reading, place: int, one: Period, weekday: int, way: Direction | None) -> Period:
    """The weekday before or after the day of saying, which is "today" but in "dinner is on Monday"."""
    first, place = place, read.skip(place, "the")
    modifier, today = MODIFIERS.get(read.word(place)), day_of(read.now)
    if modifier or (modifier == 0 and MODIFIERS.get(read.word(place + 1))):
        return one  # "last Friday", "this coming Friday": the same whatever is said of it
    ahead, back = (weekday - today.weekday()) % 7, (today.weekday() - weekday) % 7
    if modifier == 0:
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


def _weekday_and_number(read: Reading, place: int, way: Direction | None) -> _Told | None:
    """ "Sunday the 20th": the nearest 20th that is a Sunday, else the 20th."""
    start = place + 1 if read.word(place) == "the" else place
    if (weekday := WEEKDAYS.get(read.word(start))) is None:
        return None
    at = read.skip(start + 1, ",", "the")
    following = read.word(at + 1)
    ordinal = ORDINAL_DAY.fullmatch(read.word(at))
    match = ordinal or _BARE.fullmatch(read.word(at))
    if match is None or following == "of" or following in vocab.MONTHS:
        return None
    if ordinal is None and following in (*RANGING, ".", ":", "-") and read.word(at + 2).isdecimal():
        return None  # "Thursday, 8 to 2"
    days = numbered_days(read.now, int(match[1]))
    fitting = [day for day in days if day.weekday() == weekday]
    # Of an ordinal number one of the two is told wrong.
    day = nearest(fitting or (days if ordinal else []), read.now, ahead=way != "past")
    return None if day is None else _Told(whole_days(day), place, at + 1, "day")


def _days_alone(read: Reading, place: int, context: Span | None) -> list[_Told]:
    """ "the 19th and 20th", "from the 23rd to the 27th": after "Christmas" (`context`) of December."""
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
        return [_Told(Span(days[0], days[1] + DAY), place, after, "days")]
    return [_Told(whole_days(day), place, end, "day") for day, (_, end) in zip(days, numbers, strict=True)]


def _numbers(read: Reading, place: int) -> tuple[list[tuple[int, int]], bool]:
    """The numbers after "the", each with the place after it, and whether a range is told by them."""
    numbers: list[tuple[int, int]] = []
    ranging, at = False, place
    while read.word(place) == "the" and len(numbers) < _MOST_LISTED:
        at += read.word(at) == "the"
        match = ORDINAL_DAY.fullmatch(read.word(at))
        in_words = vocab.DAY_WORDS.get(read.word(at), 0) if read.word(place - 1) in _BEFORE_A_DAY else 0
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


_HOURS: Final = {
    word: hour
    for hour, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
_NAMED: Final = {"noon": 12, "midday": 12, "midnight": 24}
_HOUR_WORD = "|".join(_HOURS)
_ONE = rf"""(?:
      (?P<half>half\s+past|quarter\s+past|quarter\s+to)\s+(?P<of>{_HOUR_WORD}|1[0-2]|[1-9])\b
    | (?P<named>{"|".join(_NAMED)})\b
    | (?P<hour>2[0-4]|[01]?\d)(?:[:.](?P<minute>[0-5]\d))?
      (?:(?P<sure>\s?(?:(?P<half_day>[ap])\.?m\b\.?|o['’]?clock\b))|(?![\w:]|[.,/]\d))
    | (?P<word>{_HOUR_WORD})\b(?P<word_sure>\s+(?:(?P<word_half>[ap])\.?m\b\.?|o['’]?clock\b))?
    )"""
_CLOCK = re.compile(_ONE, re.VERBOSE | re.IGNORECASE)
_LEAD = re.compile(
    r"[\s,(:–-]*(?P<led>(?:at|@|from|between|around|about|by|before|after)\s+)?"
    r"(?:around\s+|about\s+|exactly\s+|the\s+)?",
    re.IGNORECASE,
)
_TO = re.compile(r"\s*(?:-|–|to|until|till|and)\s*", re.IGNORECASE)
# After a bare number that is led by "at": "at 5, please", "at 8 with Omar"; not "at 5 places".
_GOES_ON = re.compile(
    r"""\s*(?:$|[,.;:!?()–-]|(?:on|in|with|and|for|sharp|to|until|till|at|so|but|or|if|as|tomorrow|today|tonight|then|
        please|instead|from|by|the|we|i|you|he|she|they|it|is|was|mon|tues|wednes|thurs|fri|satur|sun)\b|\w+day\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_BEFORE_CLOCK = re.compile(r"[\s,]+(?:on\s+)?$", re.IGNORECASE)
_MINUTES = 24 * 60
# Bare hours up to here are of the afternoon: nobody meets at five in the morning without saying so.
_BARE_HOURS = 6


class Clock(NamedTuple):
    """The minutes of a day from `start` up to `end`, and the place in the text after them."""

    start: int
    end: int
    after: int


class _Point(NamedTuple):
    minutes: int
    after: int
    precise: bool = False
    sure: bool = True
    half_told: bool = False


def clock_after(text: str, place: int, *, pm_until: int = 0) -> Clock | None:
    """The clock time that follows, with the words that lead to it. Hours up to `pm_until` are of the afternoon."""
    lead = _LEAD.match(text, place)
    assert lead is not None  # it may be empty
    is_led = lead["led"] is not None
    if (first := _point(text, lead.end(), pm_until)) is None:
        return None
    joined = _TO.match(text, first.after)
    last = _point(text, joined.end(), pm_until) if joined is not None else None
    if last is not None and (last.sure or is_led):
        start, end = first.minutes, last.minutes
        if end <= start and not last.precise and end + 720 <= _MINUTES:
            end += 720
        if last.half_told and not first.half_told and start + 720 < end:
            start += 720  # "2 to 4 pm"
        if start < end:
            return Clock(start, end, last.after)
    if not first.sure and not (is_led and _GOES_ON.match(text, first.after)):
        return None
    return Clock(first.minutes, first.minutes + (1 if first.precise else 60), first.after)


def clock_before(text: str, place: int) -> tuple[int, Clock] | None:
    """The clock time that ends right before there, as in "at 14:15 on Friday", and where its words begin."""
    joined = _BEFORE_CLOCK.search(text, max(0, place - 8), place)
    if joined is None:
        return None
    start = max(0, joined.start() - 24)
    for match in re.finditer(r"(?<![\w.:,/-])(?:at\s+|@\s*|by\s+|around\s+)?[\w]", text[start : joined.start()]):
        found = clock_after(text, start + match.start())
        if found is not None and found.after == joined.start():
            return start + match.start(), found
    return None


def _point(text: str, place: int, pm_until: int) -> _Point | None:
    """One time of day. Bare hours from 1 to 6 are of the afternoon.

    A pattern that ignores case takes the letters \u0131 and \u017f for i and s; no word of a table has them.
    """
    if (match := _CLOCK.match(text, place)) is None:
        return None
    after, afternoon = match.end(), max(pm_until, _BARE_HOURS)
    if (past := match["half"]) is not None:
        of = int(match["of"]) if match["of"].isdecimal() else _HOURS.get(match["of"].casefold())
        if of is None:
            return None
        minutes = 30 if past.casefold().startswith("half") else -15 if past.casefold().endswith("to") else 15
        return _Point(_hour(of, None, afternoon) * 60 + minutes, after, precise=True)
    if match["named"]:
        named = _NAMED.get(match["named"].casefold())
        return None if named is None else _Point(named * 60 % _MINUTES, after, half_told=True)
    if match["word"]:
        half, word = match["word_half"], _HOURS.get(match["word"].casefold())
        if word is None:
            return None
        is_sure = match["word_sure"] is not None
        return _Point(_hour(word, half, afternoon) * 60, after, sure=is_sure, half_told=half is not None)
    half, minute, sure = match["half_day"], match["minute"], match["sure"] is not None
    hour = _hour(int(match["hour"]), half, pm_until if minute or sure else afternoon)
    minutes = hour * 60 + int(minute or 0)
    if minute is not None and "." in match[0] and not sure:
        return _Point(minutes, after, precise=True, sure=False)  # 9.30 may be a price
    return _Point(minutes % _MINUTES, after, minute is not None, sure or minute is not None, half is not None)


def _hour(hour: int, half: str | None, pm_until: int) -> int:
    if half is not None:
        return hour % 12 + (12 if half.casefold() == "p" else 0) if hour <= 12 else hour
    return hour + 12 if 1 <= hour <= pm_until else hour % 24
