"""Times on a command line: yesterday, 3 days ago, last week, 2026-11-20, 30d, or exact with a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated

import typer
from pydantic import TypeAdapter

from orion_recall.errors import SettingsError
from orion_recall.text.zones import time_zone
from orion_recall.when.times import times

MOMENT_HELP = "yesterday, 3 days ago, 30d, 2026-11-20, 2026-11-20T14:30Z."
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone", help="Zone of days and times given without one: Europe/Berlin, +02:00 (default: UTC)."
    ),
]

_SHORT = re.compile(r"(\d{1,9})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATED = re.compile(r"\d{4}-\d\d")
_LIKE_A_DATE = re.compile(r"\d{4}-?(?:W|\d\d-?\d\d(?:T|$)|\d\d-)")
_DAY_IN_A_ZONE = re.compile(r"\d{4}-\d\d-\d\d(?:[+-]\d\d(?::?\d\d)?|[Zz])")
_EXAMPLES = (
    "write a day (2026-11-20, yesterday, last monday), a time (2026-11-20T14:30, 2026-11-20T14:30Z), or how long "
    "ago (3 days ago, 12h, 30d, 2w, PT2H)"
)
_DURATION = TypeAdapter(timedelta)


def moment(
    option: str, text: str | None, *, timezone: str | None = None, end: bool = False, now: datetime | None = None
) -> datetime | None:
    """The time that is meant, with its zone. None for None; SettingsError that names `option` for anything else.

    A day or a period (yesterday, 3 days ago, last week) is its beginning, with `end` its end. What has no zone is
    in `timezone`, an IANA name or an offset; else it is UTC.
    """
    if text is None:
        return None
    try:
        zone: tzinfo = UTC if timezone is None else time_zone(timezone)
    except ValueError as error:
        raise SettingsError(f"--timezone: {timezone!r} is {error}") from None
    here = (now or datetime.now(UTC)).astimezone(zone)
    said = " ".join(text.split())
    try:
        at = _before(said.lower(), here) or _exact(said, zone) or _named(said, here, end=end)
        if at is None:
            datetime.fromisoformat(said)  # says why it is none
            # Never None: to whoever asked, that is no limit at all.
            raise ValueError("it is written in another way than here, or beyond the calendar")
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        # What looks like a time, and is not quite one, is told why.
        why = f" ({error})" if _LIKE_A_DATE.match(said) else ""
        raise SettingsError(f"{option}: {text!r} is no time{why}; {_EXAMPLES}") from None


def _before(text: str, now: datetime) -> datetime | None:
    """So long before now: 30d, PT2H. Elapsed time: a day in which the clocks change is no other."""
    if text == "now":
        return now
    if short := _SHORT.fullmatch(text):
        return now.astimezone(UTC) - timedelta(**{_UNITS[short[2]]: int(short[1])})
    if text.startswith("p") and len(text) > 1 and text[1] in "t0123456789":
        return now.astimezone(UTC) - _DURATION.validate_python(text.upper())
    return None


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
