"""The times that a text tells, relative to when it was said: days, longer times, and those that come every week."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from orion_recall.values import TimeMention
from orion_recall.when.calendar import DAY, WEEK, Span, day_of
from orion_recall.when.clock import Clock, clock_after, clock_before
from orion_recall.when.direction import Direction, direction
from orion_recall.when.phrases import period
from orion_recall.when.reading import Period, Reading, reading
from orion_recall.when.vocabulary import PARTS, RANGING, WEEKDAYS
from orion_recall.when.weekdays import (
    Told,
    days_alone,
    every_week,
    moved_weekday,
    of_weekday,
    weekday_and_number,
    weekday_in,
)

# A sentence ends before a capital (not "3. Dezember"), a line at its end; what is longer is read in pieces.
_SENTENCE: Final = re.compile(r"(?<=[.!?…])(?<!\d\.)[\"'”’)]*\s+(?=[\"'“‘(]*[^\W\da-z_])|\n")
_LONGEST: Final = 1500
_ISO_CLOCK: Final = re.compile(r"\d{4}-\d{1,2}-\d{1,2}[Tt](\d{1,2}):(\d\d)")


def told_times(text: str, now: datetime | None, *, most: int = 12) -> list[TimeMention]:
    """The times that a text tells, in its order, each interval once, `most` at most.

    `now`, which has a zone, is when it was said. Without it only times that need none are found.
    """
    anchor = datetime(2000, 1, 1, tzinfo=UTC) if now is None else now
    found: dict[tuple[float, float, bool], TimeMention] = {}
    context: Span | None = None
    for sentence in _sentences(text):
        sentence_reading = reading(sentence, anchor)
        if sentence_reading is None:
            continue
        for one in _in_sentence(sentence_reading, context):
            if now is None and not one.absolute:
                continue
            if one.grain in _WITH_CONTEXT:
                context = Span(one.start, one.end)
            # Beyond the years that a calendar has: "0001-01-01T00:00+14:00".
            with suppress(ValueError, OverflowError):
                for mention in _mentions(sentence_reading, sentence, one):
                    found.setdefault((mention.since, mention.until, mention.weekly), mention)
        if len(found) >= most:
            break
    return list(found.values())[:most]


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        for start in range(0, len(sentence), _LONGEST):
            piece = sentence[start : start + _LONGEST]
            yield piece


def _mentions(read: Reading, sentence: str, one: Told) -> Iterator[TimeMention]:
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


def _clocks(read: Reading, sentence: str, one: Told) -> Iterator[tuple[Clock, str]]:
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
_MOVES: Final = frozenset(
    "moved moves move moving shifted shift pushed postponed rescheduled delayed changed switched brought".split()
)
# "The invoice of 14 November" may be of the last one, whatever the verb.
_OF: Final = ("of", "dated")
_WITH_CONTEXT: Final = ("day", "month", "weekend")


def _in_sentence(read: Reading, context: Span | None) -> Iterator[Told]:
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


def _at(read: Reading, place: int, context: Span | None) -> list[Told]:
    """The times that the words from there on tell: one, or several that are listed."""
    if weekly := every_week(read, place):
        return weekly
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


def _two_days(read: Reading, place: int) -> list[Told] | None:
    """ "3 and 4 December": the second says the month of both."""
    if not read.word(place).isdecimal() or read.word(place + 1) not in ("and", "&", "or"):
        return None
    last = _single(read, place + 2, None)
    number = int(read.word(place)[:4])
    if last is None or last.grain != "day" or last.after < place + 4 or not 0 < number < last.start.day:
        return None
    day = last.start.replace(day=number)
    return [Told(day, day + DAY, place, place + 1, "day", last.absolute), last]


def _single(read: Reading, place: int, context: Span | None) -> Told | None:
    """One period, read in the direction of its clause."""
    is_in = read.word(place) == "in"
    past = period(read.at(read.now, future=False), place)
    if past is None and not is_in and weekday_in(read, place) is None:
        return None  # most words are no time, and to know the direction of a clause takes all of its words
    way = _way(read, place)
    if is_in and way != "past":
        counted = period(read.at(read.now, future=True), place + 1)
        is_counted = counted is not None and counted.kind == "relative" and counted.grain in ("day", "days", "hour")
        return _as_found(counted, place) if counted is not None and is_counted else None
    if (one := weekday_and_number(read, place, way)) is not None:
        return one
    if past is None or not _is_sure(read, place, past):
        return None
    if past.year_told and past.kind != "relative":
        return _as_found(past, place)
    weekday = weekday_in(read, place)
    if weekday is not None and past.grain in ("day", "part") and past.kind == "relative":
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


def _way(read: Reading, place: int) -> Direction | None:
    end = place + 1
    while end < len(read.words) and read.word(end) in ("the", "next", "last", "this"):
        end += 1
    return direction(read.words, place, end)


def _nearer(now: datetime, past: Span, ahead: Span) -> bool:
    """Whether the one ahead is as near as the one before, or nearly so: what is told lies ahead more often."""
    return ahead.start - now <= 3 * (now - past.end) or past.end > now


def _as_found(one: Period, place: int) -> Told:
    absolute = one.year_told and one.kind in _ABSOLUTE
    end = one.span.end
    if one.grain == "part":  # a night is of its day: what is on tonight is not on tomorrow
        end = min(end, day_of(one.span.start) + DAY)
    return Told(one.span.start, end, place, one.after, one.grain, absolute)


def _is_sure(read: Reading, place: int, one: Period) -> bool:
    """Not a version ("4.2.11"), nor a bare number that could be a year ("for 2000 euros")."""
    said = read.said(place, one.after)
    if (figures := _FIGURES.fullmatch(said)) is not None:
        near = abs(one.span.start.year - read.now.year) <= _SHORT_YEARS
        return len(figures[1]) == 2 and near and read.word(place - 1) in _LEADS_A_DATE
    if one.grain == "year" and said.isdecimal():
        before = read.word(place - 1)
        is_ranging = read.word(place + 1) in RANGING or read.word(place - 2).isdecimal()  # "from 2001 to 2004"
        return before in _YEAR_LEADS or (before in ("from", "between", *RANGING) and is_ranging)
    return True


def _opened(read: Reading, place: int, context: Span | None) -> Told | None:
    """ "since March" up to now, "until Friday" from now on, "by Friday" that day, "from Monday to Wednesday"."""
    link = read.word(place)
    if link == "since":
        one = period(read.at(read.now, future=False), place + 1)
        weekday = weekday_in(read, place + 1)
        if one is not None and weekday is not None and one.kind == "relative" and one.grain in ("day", "part"):
            one = moved_weekday(read, place + 1, one, weekday, "past")
        if one is None or one.span.start >= read.now:
            return None
        return Told(one.span.start, read.now, place, one.after, "open", absolute=False)
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


def _ranged(read: Reading, place: int, one: Told, context: Span | None) -> Told | None:
    """ "Monday to Wednesday", "3 May until 5 May": both ends are inside; the second comes after the first."""
    after = one.after + 1
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
    return Told(one.start, other.end, one.first, other.after, "days", one.absolute or other.absolute)
