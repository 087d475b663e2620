"""The times that a question names, in words of its zone: for the explanation and for the page of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from orion_recall.text.zones import zone_or_utc


def interval_words(interval: Mapping[str, Any], zone: str) -> str:
    """From when to when in the zone, which is named; a kept zone that is unknown here is UTC.

    `interval` is one of `understood`: its ends are ISO 8601, None where it has no end on that side.
    """
    clock, name = zone_or_utc(zone)
    start, end = (_moment(interval[side], clock) if interval[side] else "any time" for side in ("from", "until"))
    return f'"{interval.get("words", "")}": {start} up to {end}, {name} ({interval["kind"]})'


def _moment(iso: str, clock: tzinfo) -> str:
    try:
        moment = datetime.fromisoformat(iso).astimezone(clock)
    except OverflowError:  # at the end of the calendar
        moment = datetime.fromisoformat(iso)
    is_midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
    return f"{moment:%Y-%m-%d}" if is_midnight else f"{moment:%Y-%m-%d %H:%M}"
