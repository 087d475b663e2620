"""Times that a memory tells, as half-open intervals relative to the memory's own time (UTC)."""

from __future__ import annotations

from datetime import UTC, datetime

from orion_recall.values import TimeMention
from orion_recall.when.told import told_times

MAX_TIMES = 12


def find_times(text: str, at: float | None) -> tuple[TimeMention, ...]:
    """The times named in a text in the order in which they stand there, at most 12, each interval once.

    `at` is the memory's own time in epoch seconds; relative words of a memory without one name no time.
    """
    try:
        said = None if at is None else datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return ()
    return tuple(told_times(text, said, most=MAX_TIMES))
