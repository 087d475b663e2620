"""Circuit breaker: skips a source that keeps failing for a while, so that it costs a query no time."""

from __future__ import annotations

from dataclasses import dataclass

_FAILURES_TO_OPEN = 3
_PAUSE_S = 2.0


@dataclass(slots=True)
class Breaker:
    """The breaker of one source. After three failures in a row it lets one request through every two seconds."""

    failures: int = 0
    retry_at: float = 0.0
    last_error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the source is not asked, apart from a request every two seconds."""
        return self.failures >= _FAILURES_TO_OPEN

    def lets_through(self, now: float) -> bool:
        """Whether the source may be asked now. While it is open, each request that passes delays the next."""
        if not self.is_open:
            return True
        if now < self.retry_at:
            return False
        self.retry_at = now + _PAUSE_S
        return True

    def record(self, error: str | None, now: float) -> None:
        """Record one answer: None for success, or the error."""
        if error is None:
            self.failures = 0
            return
        self.failures += 1
        self.last_error = error
        if self.is_open:
            self.retry_at = now + _PAUSE_S
