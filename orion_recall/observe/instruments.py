"""What is measured as it happens: one call for every entry served, after its answer has gone out."""

from __future__ import annotations

from opentelemetry.metrics import Meter

from orion_recall.recall.pipeline import Recalled
from orion_recall.telemetry import (
    LABEL_OUTCOME,
    LABEL_PROFILE,
    LABEL_SOURCE,
    LABEL_STAGE,
    LABEL_STATUS,
    METRIC_DURATION,
    METRIC_ITEMS,
    METRIC_RECALLS,
    METRIC_SEARCHES,
    METRIC_SOURCE_DURATION,
    METRIC_STAGE_DURATION,
    METRIC_TOKENS,
)
from orion_recall.worker import Served

# From half a millisecond, which is a stage, to the longest that anybody waits.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_ITEMS = (0, 1, 2, 4, 8, 12, 16, 24, 32, 64)
_TOKENS = (0, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Instruments:
    """Counters and histograms of recalls. A profile is a label: it is one of those that are loaded."""

    def __init__(self, meter: Meter) -> None:
        self._recalls = meter.create_counter(METRIC_RECALLS, description="Queries answered")
        self._duration = meter.create_histogram(
            METRIC_DURATION, "s", "From reading a query to its commit", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._stage_duration = meter.create_histogram(
            METRIC_STAGE_DURATION, "s", "Stages of a recall", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._searches = meter.create_counter(
            METRIC_SEARCHES, description="Searches of a source, by how they ended"
        )
        self._source_duration = meter.create_histogram(
            METRIC_SOURCE_DURATION, "s", "Searches of a source", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._items = meter.create_histogram(
            METRIC_ITEMS, description="Memories in a bundle", explicit_bucket_boundaries_advisory=_ITEMS
        )
        self._tokens = meter.create_histogram(
            METRIC_TOKENS, description="Tokens of a bundle", explicit_bucket_boundaries_advisory=_TOKENS
        )

    def record(self, served: Served) -> None:
        """Count one entry that this worker has answered; one that the fence stopped is another worker's."""
        if served.commit != "committed":
            return
        profile = {LABEL_PROFILE: served.asked.profile}
        self._recalls.add(1, {LABEL_OUTCOME: served.outcome, **profile})
        self._duration.record(served.seconds, profile)
        if served.recalled is not None:
            self._record_recall(served.recalled, profile)

    def _record_recall(self, recalled: Recalled, profile: dict[str, str]) -> None:
        for stage, ms in recalled.stage_ms.items():
            self._stage_duration.record(ms / 1000, {LABEL_STAGE: stage})
        for report in recalled.reports:
            if report.status != "off":
                self._searches.add(1, {LABEL_SOURCE: report.source, LABEL_STATUS: report.status})
                self._source_duration.record(report.ms / 1000, {LABEL_SOURCE: report.source})
        self._items.record(len(recalled.selection.items), profile)
        self._tokens.record(recalled.selection.tokens, profile)
