"""Times on a command line: yesterday, 3 days ago, 14:30, 2026-11-20, 30d, or exact with a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated

import typer
from pydantic import TypeAdapter

from orion_recall.errors import SettingsError
from orion_recall.text.zones import time_zone
from orion_recall.when.calendar import shifted
from orion_recall.when.times import times

MOMENT_HELP = "yesterday, 3 days ago, 30d, 14:30, 2026-11-20, 2026-11-20T14:30Z."
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone", help="Zone of days and times given without one: Europe/Berlin, +02:00 (default: UTC)."
    ),
]

_SHORT = re.compile(r"(\d{1,9})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,9}|an?|one|two|three|four|five|six)\s+(second|minute|hour|day|week|month|year)s?\s+ago")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_DATED = re.compile(r"\d{4}-\d\d")
_LIKE_A_DATE = re.compile(r"\d{4}-?(?:W|\d\d-?\d\d(?:T|$)|\d\d-)")
_DAY_IN_A_ZONE = re.compile(r"\d{4}-\d\d-\d\d(?:[+-]\d\d(?::?\d\d)?|[Zz])")
_EXAMPLES = (
    "write a day (2026-11-20, yesterday, last monday), a time (14:30, 2026-11-20T14:30, 2026-11-20T14:30Z), or how "
    "long ago (3 days ago, 12h, 30d, 2w, PT2H)"
)
_DURATION = TypeAdapter(timedelta)


def moment(
    option: str, text: str | None, *, timezone: str | None = None, end: bool = False, now: datetime | None = None
) -> datetime | None:
    """The time that is meant, with its zone. None for None; SettingsError that names `option` for anything else.

    A day or a period (yesterday, last week) is its beginning, with `end` its end. A time of day is the last one.
    What has no zone is in `timezone`, an IANA name or an offset; else it is UTC.
    """
    if text is None:
        return None
    zone = _zone(timezone)
    here = (now or datetime.now(UTC)).astimezone(zone)
    said = " ".join(text.split())
    try:
        at = (
            _counted(said.lower(), here)
            or _of_clock(said, here)
            or _exact(said, zone)
            or _named(said, here, end=end)
        )
        if at is None:
            datetime.fromisoformat(said)  # says why it is none
            # Never None: to whoever asked, that is no limit at all.
            raise ValueError("it is written in another way than here, or beyond the calendar")
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        # What looks like a time, and is not quite one, is told why.
        why = f" ({error})" if _LIKE_A_DATE.match(said) else ""
        raise SettingsError(f"{option}: {text!r} is no time{why}; {_EXAMPLES}") from None


def _zone(name: str | None) -> tzinfo:
    try:
        return UTC if name is None else time_zone(name)
    except ValueError as error:
        raise SettingsError(f"--timezone: {name!r} is {error}") from None


def _counted(text: str, now: datetime) -> datetime | None:
    """How long before now: 30d, PT2H, 3 days ago."""
    if text == "now":
        return now
    if short := _SHORT.fullmatch(text):
        return _before(now, timedelta(**{_UNITS[short[2]]: int(short[1])}))
    if text.startswith("p") and len(text) > 1 and text[1] in "t0123456789":
        return _before(now, _DURATION.validate_python(text.upper()))
    if (ago := _AGO.fullmatch(text)) is None:
        return None
    count = _NUMBERS.get(ago[1]) or int(ago[1])
    if ago[2] in ("month", "year"):
        return shifted(now.replace(tzinfo=None), ago[2], -count).replace(tzinfo=now.tzinfo)
    return _before(now, timedelta(**{f"{ago[2]}s": count}))


def _before(now: datetime, by: timedelta) -> datetime:
    # Elapsed time, not wall-clock time: a day in which the clocks change is no other.
    return now.astimezone(UTC) - by


def _of_clock(text: str, now: datetime) -> datetime | None:
    """14:30 of today, or of yesterday while that is still to come."""
    if not _CLOCK.fullmatch(text):
        return None
    at = datetime.combine(now.date(), time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8)))
    today = at.replace(tzinfo=now.tzinfo)
    return today if today <= now else (at - timedelta(days=1)).replace(tzinfo=now.tzinfo)


def _named(text: str, now: datetime, *, end: bool) -> datetime | None:
    """A day or period by its name or date, as questions name them."""
    named = times(text, now).intervals
    if len(named) != 1 or named[0].words.casefold() != text.casefold():
        return None
    of = named[0].end if end and named[0].end is not None else named[0].start
    return None if of is None else datetime.fromtimestamp(of, UTC)


def _exact(text: str, zone: tzinfo) -> datetime | None:
    """A date with a time of day, in ISO 8601."""
    if not _DATED.match(text) or len(text) <= len("2026-11-20"):
        return None
    if _DAY_IN_A_ZONE.fullmatch(text):  # Python would take "+02:00" for two o'clock
        raise ValueError("a day has no zone of its own: write 2026-11-20T00:00+02:00, or --timezone")
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)
