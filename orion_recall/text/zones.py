"""Time zones as people write them: IANA names and offsets from UTC."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d\d)?", re.IGNORECASE)


@lru_cache(maxsize=512)
def time_zone(name: str) -> tzinfo:
    """The zone of an IANA name (Europe/Berlin) or an offset (+02:00, UTC-5). ValueError for anything else."""
    if name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if (match := _OFFSET.fullmatch(name)) is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if offset < timedelta(hours=24):
            return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:  # no such file, no name of one, or a folder of zones
        raise ValueError("not a time zone: give an IANA name (Europe/Berlin) or an offset (+02:00)") from error


def zone_or_utc(name: str) -> tuple[tzinfo, str]:
    """The zone of a name that was kept, and its name; UTC where no such zone is known here."""
    try:
        return time_zone(name), name
    except ValueError:
        return UTC, "UTC"
