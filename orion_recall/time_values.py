"""Values of times: those that a question names, those that a text tells, and those of memories.

Times are epoch seconds (UTC); intervals are half-open.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple

TimeKind = Literal["date", "period", "relative", "open"]
TimeOf = Literal["said", "told", "both"]

TimeRange = tuple[float | None, float | None]
"""A half-open interval of epoch seconds; None is without end on that side."""


FIRST_S, LAST_S = -62_135_596_800.0, 253_402_300_799.0
"""The first and the last second of the calendar, the years 1 to 9999, in epoch seconds."""
_DAY_S = 86_400


def in_calendar(seconds: float) -> datetime:
    """The moment (epoch seconds) in UTC; one beyond the calendar is its first or its last second."""
    return datetime.fromtimestamp(min(max(seconds, FIRST_S), LAST_S), UTC)


def clock_in(zone: tzinfo, moment: float) -> datetime:
    """The moment (epoch seconds) by the clocks of a zone.

    Midnight in UTC to the second is a date without a time of day, as dates alone are stored: it is that date in
    every zone. OverflowError, ValueError or OSError beyond the calendar.
    """
    return datetime.fromtimestamp(moment, zone if moment % _DAY_S else UTC)


class Interval(NamedTuple):
    """A time interval in a question: from `start` up to, and without, `end`, and the words that name it.

    Epoch seconds; None is without end on that side. `kind` is date (days by name), period (months, years, seasons,
    from and to), relative (to now) or open (since, before, after, until). `exact`: it is one day, or a part of one,
    that is named and not counted from now.
    """

    start: float | None
    end: float | None
    kind: TimeKind
    words: str
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTime:
    """The time in a question. Of several intervals, any may match.

    `asks_when`: a time is what it asks for. `session`: the place of the session that it names, from 1 on, or from
    -1 (the last) back. `of`: whether the intervals are of what was `said` then, of what happens then as a text has
    `told` it, or of both. `alone`: it names the time, or the session, and nothing else to search for. `session_id`:
    the session that `session` names, once that has been looked up. `widened`: the intervals are a day wider on both
    sides than the words say, because nothing was found in them. `ahead`: it asks for what is still to come, which a
    told time that is over does not answer. `zone`: that of whoever asks.
    """

    intervals: tuple[Interval, ...] = ()
    asks_when: bool = False
    session: int | None = None
    of: TimeOf = "both"
    alone: bool = False
    session_id: str | None = None
    widened: bool = False
    ahead: bool = False
    zone: tzinfo = UTC

    def is_past(self, now: float) -> bool:
        """Whether it names times, and each has a beginning and is over at `now` (epoch seconds)."""
        return bool(self.intervals) and all(
            one.start is not None and one.end is not None and one.end <= now for one in self.intervals
        )


NO_TIME = QuestionTime()


class ToldTime(NamedTuple):
    """A time that a text tells: a half-open interval of epoch seconds; `weekly`: the first of one every week."""

    since: float
    until: float
    weekly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMention:
    """A time named in a text: its words, and a half-open interval of epoch seconds.

    `weekly`: it comes again every week, from that interval on.
    """

    text: str
    since: float
    until: float
    weekly: bool = False


class TimedKey(NamedTuple):
    """A dated memory by its key, with its time and its session."""

    key: int
    ts: float
    session_id: str | None
