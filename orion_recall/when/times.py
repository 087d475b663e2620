"""The times of a question: the intervals that it names, relative to its own clock, and its sessions."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from orion_recall.values import NO_TIME, Interval, QuestionTime, TimeKind
from orion_recall.when.calendar import DAY, day_of
from orion_recall.when.phrases import period
from orion_recall.when.reading import Period, Reading, asks_for_plans, coming_in, looks_ahead, reading, time_of
from orion_recall.when.vocabulary import DAY_WORDS, RANGING

MOST_SESSIONS: Final = 200
"""A session is named by a number up to this one."""

_BEFORE_LAST: Final = r"(?:second|next)[\s-]+to[\s-]+last|last\s+but\s+one|penultimate"
_SESSION: Final = r"(?:session|conversation|chat|talk)\b(?!\s+(?:room|rooms|show|shows|app|bot)\b)"
_NUMBERED: Final = "|".join(sorted(DAY_WORDS, key=len, reverse=True))
_PLACE: Final = re.compile(
    rf"""\b(?:(?P<before_last>{_BEFORE_LAST})
           |(?P<last>last|latest|final|previous|most\s+recent)
           |(?P<ordinal>{_NUMBERED})
           |(?P<figure>\d{{1,3}})(?:st|nd|rd|th))\s+
        (?:{_SESSION}|time\s+(?:that\s+)?(?:we|i|you|they)\s+(?:talked|spoke|chatted|met)\b)
      | \b(?P<before>(?:session|conversation|chat|talk)\s+before\s+(?:the\s+)?last)(?:\s+one)?\b
      | \b(?:session|conversation|chat)\s+(?:number\s+|no\.?\s*|nr\.?\s*|\#\s*)?(?P<number>\d{{1,3}})\b
        (?!\s*(?:%|percent|people|persons|minutes?|hours?|days?|times?)\b)""",
    re.VERBOSE | re.IGNORECASE,
)


# One of them is in whatever `_PLACE` finds; to look for them costs a tenth of the expression.
_TALKS: Final = ("sess", "convers", "chat", "talk", "spoke", "met")


def session_named(text: str) -> tuple[int, str] | None:
    """Which session the text names, from 1 on or from -1 back (the last), and the words that name it."""
    if not any(map(text.casefold().__contains__, _TALKS)):
        return None
    if (match := _PLACE.search(text)) is None:
        return None
    if match["before_last"] or match["before"]:
        place = -2
    elif match["last"]:
        place = -1
    else:
        figure = match["figure"] or match["number"]
        place = int(figure) if figure else DAY_WORDS.get(match["ordinal"].casefold(), 0)
    return (place, match[0]) if place and place <= MOST_SESSIONS else None


def ordinal(place: int) -> str:
    """A place from 1 on, or from -1 (the last) back, in words: first, 2nd, 3rd, 4th …, 11th …, 21st; last."""
    if place in (1, -1, -2):
        return {1: "first", -1: "last", -2: "second to last"}[place]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th") if place % 100 not in (11, 12, 13) else "th"
    return f"{place}{ending}"


_ASKS_WHEN: Final = re.compile(
    r"""^\W*(?:(?:and|so|but|also|ok(?:ay)?|then)\W+)*(?:(?:on|in|at|by|since|from|around|about|until)\s+)?
        (?:when(?!ever)\b(?!\s+(?:he|she|they|it|i|we|you|the)\b[^?]*,)
           |(?:what|which)(?:\s+exact)?\s+(?:year|month|week|weekend|day|date|time|season|weekday|decade|quarter)\b(?!s|'s|’s)
           |how\s+long\s+ago\b)
      | \b(?=[hkrstw])(?:
          (?:know|tell\s+me|remember|recall|remind\s+me|say|said|sure)\s+(?:since\s+)?
            (?:when\b|(?:what|which)\s+(?:year|month|week|day|date)\b|how\s+long\s+ago\b)
          | what\s+(?:was|is|were)\s+the\s+(?:exact\s+)?(?:date|year|month|day|time)\b
          | how\s+long\s+ago\b)""",
    re.VERBOSE | re.IGNORECASE,
)
# "Three days ago" is seldom counted exactly.
_COUNTED: Final = frozenset(("ago", "back", "now"))
_JOINED: Final = frozenset(("and", "or", "&", ","))
# "Who came by last night?" asks for no end of anything.
_WITH_BY: Final = frozenset(
    """come comes came coming go goes went going stop stops stopped drop drops dropped pass passes passed swing
    swung stand stood""".split()
)
_OF_TWO_WORDS: Final = {("prior", "to"): "before", ("up", "to"): "until", ("later", "than"): "after"}
# "What was I up to last weekend?" asks for no end either.
_UP_TO_SOMETHING: Final = frozenset("be been am are is was were i you we they he she get got".split())


class _Named(NamedTuple):
    """One interval in wall-clock time; None is without end on that side."""

    start: datetime | None
    end: datetime | None
    kind: TimeKind
    first: int
    after: int
    period: Period | None = None


def times(
    text: str, now: datetime, *, names: frozenset[str] = frozenset(), south: bool = False, day_first: bool = False
) -> QuestionTime:
    """What the text says of time, relative to `now`, which has a zone.

    `names` are folded words that are people's names here: "April" is then no month unless a number says so.
    `south` moves the seasons by half a year; `day_first` reads 3/5/2023 as the third of May.
    """
    asks_when, zone = _ASKS_WHEN.search(text) is not None, now.tzinfo or UTC
    if (coming := coming_in(text)) is not None:
        ahead_of_now = Interval(start=now.timestamp(), end=None, kind="open", words=coming)
        return QuestionTime(intervals=(ahead_of_now,), of="told", ahead=True, zone=zone)
    read = reading(text, now, names=names, south=south, day_first=day_first)
    if not read.may_name_times:
        ahead = (asks_when or asks_for_plans(read.words)) and looks_ahead(read)
        return QuestionTime(asks_when=asks_when, ahead=ahead, zone=zone) if asks_when or ahead else NO_TIME
    read.future = looks_ahead(read)
    session, named = session_named(text), _bounded(_all(read))
    intervals = tuple(found for one in named if (found := _interval(read, one)) is not None)
    if not intervals:
        ahead = read.future and (asks_when or asks_for_plans(read.words))
        return QuestionTime(asks_when=asks_when, session=session and session[0], ahead=ahead, zone=zone)
    all_ahead = all(one.start is not None and one.start > now.timestamp() for one in intervals)
    return QuestionTime(
        intervals=intervals,
        asks_when=asks_when,
        session=session and session[0],
        of=time_of(read, [one.first for one in named], all_ahead=all_ahead),
        ahead=read.future,
        zone=zone,
    )


def _all(read: Reading) -> list[_Named]:
    found: list[_Named] = []
    place = 0
    while place < len(read.words):
        try:
            one = _at(read, place)
        except (ValueError, OverflowError):  # beyond the years that a calendar has
            one = None
        found += [] if one is None else [one]
        place = max(0 if one is None else one.after, place + 1)
    # "In May and June 2022": a year that is told of the second is the first's, too.
    for at in range(len(found) - 1, 0, -1):
        one, other = found[at - 1], found[at]
        if one.period is None or other.period is None or one.period.year_told or not other.period.year_told:
            continue
        if other.first - one.after <= 2 and read.word(one.after) in _JOINED:
            again = period(read.at(other.period.span.end - DAY, future=False), one.first)
            if again is not None and again.after == one.after:
                found[at - 1] = one._replace(start=again.span.start, end=again.span.end, period=again)
    return found


def _bounded(found: list[_Named]) -> list[_Named]:
    """ "After 3 May and before 9 May" is what lies between, and no other day before the one or after the other."""
    if len(found) != 2 or found[1].first - found[0].after > 2 or {one.kind for one in found} != {"open"}:
        return found
    starts, ends = [one.start for one in found if one.start], [one.end for one in found if one.end]
    if not starts or len(ends) != 1 or max(starts) >= ends[0]:
        return found
    return [_Named(max(starts), ends[0], "open", found[0].first, found[1].after)]


def _at(read: Reading, place: int) -> _Named | None:
    """The interval that the words from there on tell."""
    link, after = read.word(place), place + 1
    if link in ("between", "from") and (both := _from_to(read, place)) is not None:
        return both
    one_word = _OF_TWO_WORDS.get((link, read.word(after)))
    if one_word is not None and (link != "up" or read.word(place - 1) not in _UP_TO_SOMETHING):
        link, after = one_word, after + 1
    if link in ("since", "before", "after", "until", "till", "by", "following"):
        if link == "by" and read.word(place - 1) in _WITH_BY:
            return None
        # "Which plans have changed since July" looks ahead, and yet July is over.
        one = period(read.at(read.now, future=False) if link == "since" else read, after)
        return None if one is None else _opened(read, link, place, one)
    if (one := period(read, place)) is None:
        return None
    ranging = read.word(one.after) in RANGING and one.grain in ("day", "month", "year", "quarter")
    if ranging and (both := _from_to(read, place - 1, first=one)) is not None:
        return both
    return _Named(one.span.start, one.span.end, one.kind, place, one.after, one)


def _opened(read: Reading, link: str, place: int, one: Period) -> _Named:
    if link in ("since", "after", "following"):
        return _Named(one.span.start if link == "since" else one.span.end, None, "open", place, one.after)
    end = one.span.start if link == "before" else one.span.end
    # "What is due by Friday": what is over is due no more.
    start = day_of(read.now) if read.future and end > read.now else None
    return _Named(start, end, "open", place, one.after)


def _from_to(read: Reading, place: int, first: Period | None = None) -> _Named | None:
    """ "from May to July 2022", "between the 3rd and the 5th of May"; both ends are inside."""
    one = first or period(read, place + 1)
    if one is None:
        return _from_a_number(read, place)
    joined, begin = read.word(one.after), place if first is None else place + 1
    if joined not in RANGING and not (joined == "and" and read.word(place) == "between"):
        return None
    if read.word(one.after + 1) == "now" and one.span.start < read.now:
        return _Named(one.span.start, None, "open", begin, one.after + 2)
    if (other := period(read, one.after + 1)) is None:
        return None
    if not one.year_told:  # "August 11 and August 15 2023": the first is the one before the second
        again = period(read.at(other.span.end - DAY, future=False), place + 1)
        one = again if again is not None and (other.year_told or other.span.start < one.span.start) else one
    elif not other.year_told:
        other = period(read.at(one.span.start, future=True), one.after + 1) or other
    start, end = min(one.span.start, other.span.start), max(one.span.end, other.span.end)
    return _Named(start, end, "period", begin, other.after)


def _from_a_number(read: Reading, place: int) -> _Named | None:
    """ "between 3 and 5 May", "from the 3rd to the 5th of May"."""
    after = place + 2 if read.word(place + 1) == "the" else place + 1
    match = re.fullmatch(r"([12]?\d|3[01])(?:st|nd|rd|th)?", read.word(after))
    if match is None or read.word(after + 1) not in (*RANGING, "and"):
        return None
    other = period(read, after + 2)
    if other is None or other.grain != "day" or not 0 < int(match[1]) < other.span.start.day:
        return None
    start = other.span.start.replace(day=int(match[1]))
    return _Named(start, other.span.end, "period", place, other.after)


def _interval(read: Reading, one: _Named) -> Interval | None:
    try:
        start, end = (None if moment is None else read.instant(moment) for moment in (one.start, one.end))
    except (ValueError, OverflowError):  # beyond the calendar in UTC
        return None
    if start is not None and end is not None and end <= start:
        end = start + timedelta(days=1).total_seconds()  # a day that a zone's calendar left out
    is_day = one.kind == "open" or (one.period is not None and one.period.grain in ("day", "part", "hour"))
    exact, words = is_day and read.word(one.after - 1) not in _COUNTED, read.said(one.first, one.after)
    return Interval(start=start, end=end, kind=one.kind, words=words, exact=exact)
