"""Told times in an index: how they stand in a point's payload, and the conditions that find them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from orion_recall.values import TimeMention, TimeRange, ToldTime

TOLD: Final = "told"
"""The payload's list of told times: objects with `since` and `until`, and `weekday` if it comes every week."""
TOLD_FIELDS: Final = ("told[].since", "told[].until")
"""The fields of them that are indexed as numbers."""
TOLD_WEEKDAY: Final = "told[].weekday"
"""The field of them that is indexed as an integer."""
_DAY_S: Final = 86_400
_EVERY_DAY: Final = (0, 1, 2, 3, 4, 5, 6)


class ToldCondition(NamedTuple):
    """A condition on one told time: it begins before `before` and ends after `after`.

    With `weekdays` (0 is Monday) it comes every week on one of these.
    """

    before: float | None
    after: float | None
    weekdays: tuple[int, ...] = ()


def told_payload(times: Iterable[TimeMention]) -> list[dict[str, float]]:
    """The told times of a memory as its point has them."""
    return [
        {"since": one.since, "until": one.until, **({"weekday": _weekday(one.since)} if one.weekly else {})}
        for one in times
    ]


def told_times_of(listed: Iterable[Mapping[str, Any]]) -> tuple[ToldTime, ...]:
    """The told times of a point, from what its payload lists."""
    return tuple([ToldTime(one["since"], one["until"], "weekday" in one) for one in listed])


def told_conditions(ranges: Sequence[TimeRange]) -> list[ToldCondition]:
    """Conditions of which one must hold for a told time to overlap one of the intervals."""
    found: list[ToldCondition] = []
    for since, until in ranges:
        found.append(ToldCondition(until, since))
        found.append(ToldCondition(until, None, _weekdays(since, until)))
    return found


def _weekdays(since: float | None, until: float | None) -> tuple[int, ...]:
    if since is None or until is None or until - since >= 7 * _DAY_S:
        return _EVERY_DAY
    # What begins late in the evening may end on the next day.
    first, last = int(since // _DAY_S) - 1, int((until - 1) // _DAY_S)
    return tuple(dict.fromkeys(_weekday(day * _DAY_S) for day in range(first, last + 1)))


def _weekday(moment: float) -> int:
    """0 is Monday; the first of January 1970 was a Thursday."""
    return (int(moment // _DAY_S) + 3) % 7
