"""The time that one pass may take, and whether a caller leaves less than what is fair."""

from __future__ import annotations

from dataclasses import dataclass

# Two limits that differ by less are the same: a cascade counts its time from a moment later.
_SAME_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds for the whole pass, and for each of its sources.

    `full_s` is what a query has whose caller allows as much time as this service gives.
    """

    pass_s: float
    full_s: float
    own_s: float

    @property
    def source_s(self) -> float:
        """Seconds that one source may take."""
        return min(self.pass_s, self.own_s)

    @property
    def is_short(self) -> bool:
        """Whether sources have less than the time that is fair: being late is then not their fault."""
        return self.leaves_less(self.source_s, self.own_s)

    def leaves_less(self, allowed_s: float, own_s: float, *, after_s: float = 0.0) -> bool:
        """Whether `allowed_s`, `after_s` into the pass, is less than a limit of one's own and than others have."""
        return allowed_s < min(own_s, self.full_s - after_s) - _SAME_S
