"""Told times: the times that a statement tells, as half-open intervals relative to when it was said.

told_times("I have the dentist on Tuesday at 14:15", now) -> that minute of the next Tuesday

The grammar is that of questions (`phrases`), read clause by clause: the clause's verb says whether a time without a
direction of its own ("on Tuesday", "in May", "30 November") is the next one or the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from orion_recall.values import TimeMention
from orion_recall.when.calendar import DAY, WEEK, Span, day_of
from orion_recall.when.clock import Clock, clock_after, clock_before
from orion_recall.when.phrases import period
from orion_recall.when.reading import Reading, reading
from orion_recall.when.told_days import Found
from orion_recall.when.told_periods import in_sentence
from orion_recall.when.vocabulary import PARTS, WEEKDAYS

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
