"""The one-line report of a worker's searches: queries, latency percentiles, and how often the index was away."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from orion_recall.serving.worker import ServedMessage

SEARCHES = "searches"
_MOST_LATENCIES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """Figures of a worker since its start; the percentiles are those of its latest 2,000 queries, in ms.

    `fallbacks` counts queries that the record's text search answered for the index.
    """

    queries: int
    fallbacks: int
    p50_ms: float
    p95_ms: float
    p99_ms: float

    def __str__(self) -> str:
        rate = 100 * self.fallbacks / self.queries if self.queries else 0.0
        told = f"{self.queries:,} queries, P50 latency: {self.p50_ms:.2f}ms, P95 latency: {self.p95_ms:.2f}ms"
        return f"Search Metrics: {told}, P99 latency: {self.p99_ms:.2f}ms, fallback rate: {rate:.1f}%"


_FIGURES = TypeAdapter(SearchFigures)


class SearchReport:
    """Counts what a worker has answered with a search."""

    def __init__(self) -> None:
        self._queries = self._fallbacks = 0
        self._latencies_ms: deque[float] = deque(maxlen=_MOST_LATENCIES)

    def record(self, served: ServedMessage) -> None:
        """Count one answer; one without a search, or that another worker gave, is left out."""
        if served.commit != "committed" or served.recalled is None:
            return
        self._queries += 1
        self._fallbacks += any(report.fallback is not None for report in served.recalled.reports)
        self._latencies_ms.append(served.seconds * 1000)

    @property
    def figures(self) -> SearchFigures:
        """The figures up to now; the percentiles are 0 before the first query."""
        ordered = sorted(self._latencies_ms)
        p50, p95, p99 = (percentile(ordered, share) for share in (0.50, 0.95, 0.99))
        return SearchFigures(queries=self._queries, fallbacks=self._fallbacks, p50_ms=p50, p95_ms=p95, p99_ms=p99)

    @property
    def field(self) -> str:
        """The figures as a field of the heartbeat."""
        return _FIGURES.dump_json(self.figures).decode()


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of the ordered values that the share of them does not exceed; 0 without any."""
    return round(ordered[max(math.ceil(len(ordered) * share) - 1, 0)], 3) if ordered else 0.0


def searches_of(heartbeat: Mapping[str, str]) -> SearchFigures | None:
    """The figures of a heartbeat; None when it has none that can be read."""
    try:
        return _FIGURES.validate_json(heartbeat.get(SEARCHES, ""))
    except ValidationError:
        return None
