"""Times as people give them on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter

from orion_recall.contracts import zoned_moment
from orion_recall.errors import SettingsError

_SHORT = re.compile(r"(\d{1,9})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATED = re.compile(r"\d{4}-\d\d")
_FORMS = (
    "write how long ago (5m, 12h, 30d, 2w, or ISO 8601 such as PT2H and P3D) or a time with its zone "
    "(2026-03-01T09:30:00Z)"
)
_DURATION = TypeAdapter(timedelta)


def moment(option: str, text: str | None, *, now: datetime | None = None) -> datetime | None:
    """A time with a zone, or how long before now: `2026-03-01T09:30:00Z`, `PT2H`, `P3D` (ISO 8601), `30d`, `12h`.

    None for None; SettingsError that names `option` for anything else.
    """
    if text is None:
        return None
    try:
        if short := _SHORT.fullmatch(text):
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[short[2]]: int(short[1])})
        if text.startswith("P"):
            return (now or datetime.now(UTC)) - _DURATION.validate_python(text)
        return zoned_moment(text)
    except (ValueError, OverflowError) as error:
        # What looks like a time, and is not quite one, is told why.
        why = f" ({error})" if _DATED.match(text) else ""
        raise SettingsError(f"{option}: {text!r} is no time{why}; {_FORMS}") from None
