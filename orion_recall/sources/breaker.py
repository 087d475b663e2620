"""Circuit breaker: skips a source that keeps failing for a while, so that it costs a query no time.

Breakers are shared by all callers. So only what a source did within its own fair time counts: neither the deadline
of a caller, nor a query that the source cannot take.
"""

from __future__ import annotations

from dataclasses import dataclass

from orion_recall.errors import ModelError, QueryNotTaken, SourceError

_FAILURES_TO_OPEN = 3
_PAUSE_S = 2.0


@dataclass(slots=True)
class Breaker:
    """The breaker of one source. After three failures in a row it lets one request through every two seconds.

    Requests that are given less than the fair time are let through apart from the others: they cannot show that the
    source fails, and must not use up the turns of those that can.
    """

    failures: int = 0
    retry_at: float = 0.0
    short_retry_at: float = 0.0
    last_error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the source is not asked, apart from a request every two seconds."""
        return self.failures >= _FAILURES_TO_OPEN

    def lets_through(self, now: float, *, is_short: bool = False) -> bool:
        """Whether the source may be asked now. While it is open, each request that passes delays the next."""
        if not self.is_open:
            return True
        if now < (self.short_retry_at if is_short else self.retry_at):
            return False
        if is_short:
            self.short_retry_at = now + _PAUSE_S
        else:
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
            self.retry_at = self.short_retry_at = now + _PAUSE_S

    def record_error(self, error: SourceError | ModelError, now: float) -> None:
        """Record an error that was raised; one that is the query's own fault gives its turn back."""
        if isinstance(error, QueryNotTaken):
            self.retry_at = self.short_retry_at = min(now, self.retry_at, self.short_retry_at)
        else:
            self.record(str(error), now)

    def record_late(self, error: str, now: float, *, is_excused: bool) -> None:
        """Record that no answer came in time. `is_excused`: it had less than the fair time, which says nothing."""
        if not is_excused:
            self.record(error, now)
