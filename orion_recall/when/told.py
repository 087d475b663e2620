"""The times that a text tells, relative to when it was said: "the dentist is on Tuesday at 14:00"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from orion_recall.values import TimeMention
from orion_recall.when.calendar import DAY, WEEK, Span, day_of, moved, shifted
from orion_recall.when.clock import Clock, clock_after, clock_before
from orion_recall.when.dates import numbered
from orion_recall.when.direction import Direction, direction
from orion_recall.when.phrases import period
from orion_recall.when.reading import Period, Reading, reading
from orion_recall.when.told_periods import in_sentence
from orion_recall.when.vocabulary import DAY_WORDS, LAST, MONTHS, NEXT, PARTS, THIS, WEEKDAYS

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
_LEADS: Final = ("on", "by", "until", "till", "from", "since")
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
        in_words = DAY_WORDS.get(read.word(at), 0) if read.word(place - 1) in _LEADS else 0
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
_WITH_CONTEXT: Final = ("day", "month", "weekend")


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
