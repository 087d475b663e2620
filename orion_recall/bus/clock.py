"""The clock of the bus, as far as this process can know it.

The bus's server stamps every entry, so its clock decides whether a ttl is over and what time an answer has. Each
time that it tells bounds the difference between its clock and this process's monotonic one: it was read after the
question was sent and before the answer came. The bounds of many together are narrow, however slow some were.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# How fast two clocks may drift apart: quartz is wrong by less than a tenth of this.
_DRIFT = 500e-6
# The server tells whole microseconds, rounded down.
_TICK_S = 1e-6


class BusClock:
    """The time by the bus's server."""

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._low, self._high, self._as_of = -math.inf, math.inf, 0.0

    def began(self) -> float:
        return self._monotonic()

    def told(self, server_s: float, *, asked_at: float) -> None:
        """Take what the server has just told, in epoch seconds, after it was asked at `asked_at`."""
        now = self._monotonic()
        low, high = server_s - now, server_s + _TICK_S - asked_at
        drifted_s = (now - self._as_of) * _DRIFT
        narrow_low, narrow_high = max(low, self._low - drifted_s), min(high, self._high + drifted_s)
        # They do not meet where the server's clock was set, or another server has taken its place.
        self._low, self._high = (narrow_low, narrow_high) if narrow_low <= narrow_high else (low, high)
        self._as_of = now

    @property
    def is_known(self) -> bool:
        return math.isfinite(self._low)

    def earliest(self) -> float:
        """Epoch seconds that it is at the server at least; 0 while it has not told its time."""
        return self._monotonic() + self._low if self.is_known else 0.0

    def now(self) -> float:
        """Epoch seconds by the server's clock; by this machine's while the server has not told its time."""
        return self._monotonic() + (self._low + self._high) / 2 if self.is_known else self._wall()

    @property
    def ahead_s(self) -> float:
        """Seconds that this machine's wall clock is ahead of the server's, at least; 0 while nothing is known."""
        if not self.is_known:
            return 0.0
        ahead = self._wall() - self._monotonic()
        return ahead - min(max(ahead, self._low), self._high)
