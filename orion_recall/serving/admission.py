"""Admission: whether a query that has to wait can be answered before its caller stops waiting.

What was measured decides: how long an answer takes, and how quickly answers follow each other while all slots are
taken. Where nothing was measured yet, nothing is turned away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# The weight of the newest measurement: twenty answers make most of the mean.
_NEWEST = 0.1
# How far an answer may be off: few take longer than the mean and three mean deviations. A query that has to wait
# may have to wait longer than expected, too.
_DEVIATIONS, _DEVIATIONS_OF_WAIT = 3, 1
# Waits that were expected to be shorter say little about how right expectations are.
_LEAST_EXPECTED_S = 0.1
_MOST_STRETCH = 4.0
# In how much of the longest recall an answer should come, when recalls only wait for each other's processor.
_SHARE_OF_DEADLINE = 0.25
# An event loop that comes so late has more to do than it can; one that comes so early has not.
_LATE_S, _EARLY_S = 0.01, 0.002
_FEWEST_SLOTS = 2
_SOONEST_S, _LATEST_S = 0.05, 60.0


class Admission:
    """Measures answers, and from that says what fits into a caller's time.

    `slots` is how many recalls are under way at once: `most_slots`, and fewer while the processor is what they wait
    for. More of them would then be no quicker together, and each would take longer than its sources may.
    """

    def __init__(self, *, most_slots: int, deadline_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = self._most_slots = most_slots
        self._target_s, self._clock = deadline_s * _SHARE_OF_DEADLINE, clock
        self._answer_s, self._deviation_s, self._interval_s = math.nan, 0.0, math.nan
        self._lag_s, self._stretch = 0.0, 1.0
        self._last_end: float | None = None
        self._ends = 0

    def ended(self, seconds: float, *, is_busy: bool) -> None:
        """Take that an answer took so long. `is_busy`: all slots were taken until then."""
        if math.isnan(self._answer_s):
            self._answer_s, self._deviation_s = seconds, seconds / 2
        else:
            self._deviation_s += _NEWEST * (abs(seconds - self._answer_s) - self._deviation_s)
            self._answer_s += _NEWEST * (seconds - self._answer_s)
        now = self._clock()
        if is_busy and self._last_end is not None:
            passed_s = now - self._last_end
            if math.isnan(self._interval_s):
                self._interval_s = seconds / self.slots
            self._interval_s += _NEWEST * (passed_s - self._interval_s)
            self._ends += 1
        self._last_end = now if is_busy else None
        if self._ends >= self.slots:
            self._ends = 0
            self._set_slots()

    def loop_was_late(self, seconds: float) -> None:
        """Take that the event loop ran something so much later than it should have."""
        self._lag_s += _NEWEST * (seconds - self._lag_s)

    def waited(self, seconds: float, *, expected_s: float) -> None:
        """Take that a query's turn came after so long. `expected_s`: what `turn_s` said when it came."""
        if expected_s >= _LEAST_EXPECTED_S:
            # A turn comes sooner than expected where some before it were refused: what is to be avoided.
            stretch = min(max(seconds / expected_s, 1.0), _MOST_STRETCH)
            self._stretch += _NEWEST * (stretch - self._stretch)

    def turn_s(self, ahead: int) -> float:
        """Seconds until so many have been answered."""
        return 0.0 if math.isnan(self._interval_s) else ahead * self._interval_s

    def wait_s(self, ahead: int) -> float:
        """Seconds until a slot is free for what has so many before it.

        It takes longer than `turn_s` where queries of other tenants come in between: as much longer as of late.
        """
        return self.turn_s(ahead) * self._stretch

    def fits(self, left_s: float, ahead: int, *, is_only: bool = False) -> bool:
        """Whether a query with `ahead` before it is answered within `left_s`.

        Most likely so; of the only one that a tenant has waiting (`is_only`) on average: who asks seldom would lose
        more by a refusal than is lost by a late answer now and then.
        """
        margin_s = 0.0 if is_only else (_DEVIATIONS + _DEVIATIONS_OF_WAIT) * self._deviation_s
        return self.wait_s(ahead) + self._known_answer_s + margin_s <= left_s

    def is_too_late(self, left_s: float, *, is_only: bool = False) -> bool:
        """Whether a query whose turn has come may well not be answered in time; of an only one, on average.

        A late answer costs what another one needs that waits and has more time left.
        """
        margin_s = 0.0 if is_only else _DEVIATIONS * self._deviation_s
        return self._known_answer_s + margin_s > left_s

    def retry_after_s(self, ahead: int) -> float:
        """Seconds after which what is ahead now will have been answered."""
        return min(max(self.wait_s(ahead), _SOONEST_S), _LATEST_S)

    @property
    def _known_answer_s(self) -> float:
        return 0.0 if math.isnan(self._answer_s) else self._answer_s

    def _set_slots(self) -> None:
        """One slot more or fewer, by how long answers take and whether the processor is what they wait for."""
        together_s = self.slots * self._interval_s
        if together_s > self._target_s and self._lag_s > _LATE_S:
            self.slots = max(min(_FEWEST_SLOTS, self._most_slots), self.slots - 1)
        elif together_s + self._interval_s <= self._target_s or self._lag_s < _EARLY_S:
            self.slots = min(self._most_slots, self.slots + 1)
