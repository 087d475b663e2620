"""Stage times: how long each stage of a recall took."""

from __future__ import annotations

import time


class StageTimes:
    """Milliseconds of every stage, in order."""

    __slots__ = ("_began", "_last", "ms")

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.ms: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the recall began."""
        return time.perf_counter() - self._began

    def done(self, stage: str) -> None:
        """End a stage; the next one begins now."""
        now = time.perf_counter()
        self.ms[stage] = round((now - self._last) * 1000, 3)
        self._last = now
