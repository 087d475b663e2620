"""Leaving a store alone for a while when it keeps failing, so that a dead server costs a query nothing."""

from __future__ import annotations

from dataclasses import dataclass

_FAILURES_TO_OPEN = 3
_LEFT_ALONE_S = 2.0


@dataclass(slots=True)
class Breaker:
    """How a source has done lately. After three failures in a row it is tried once every two seconds."""

    failures: int = 0
    closed_until: float = 0.0
    last_error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the source is left alone, but for a try now and then."""
        return self.failures >= _FAILURES_TO_OPEN

    def lets_through(self, now: float) -> bool:
        """Whether the source may be asked now; the one that is let through holds the others back."""
        if not self.is_open:
            return True
        if now < self.closed_until:
            return False
        self.closed_until = now + _LEFT_ALONE_S
        return True

    def record(self, error: str | None, now: float) -> None:
        """Note how it went."""
        if error is None:
            self.failures = 0
            return
        self.failures += 1
        self.last_error = error
        if self.is_open:
            self.closed_until = now + _LEFT_ALONE_S
