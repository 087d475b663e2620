"""Metric instruments that record every served entry, after its reply has gone out.

A measurement of the SDK costs some ten microseconds, so only durations are recorded one by one; counts are kept
here and read when metrics are exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from orion_recall import telemetry as t
from orion_recall.recall.types import Recalled
from orion_recall.serving.worker import ServedMessage

# From half a millisecond, a stage, to the longest wait for a reply.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
# Given, because looking up the current one costs time, and no measurement here is inside a span.
_NO_CONTEXT = Context()
# Memories in a bundle: none, few, and up to the largest that a query may ask for.
_RESULTS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32, 64, 128)


class Instruments:
    """Counters and histograms of recalls. The label `profile` is one of the loaded profiles."""

    def __init__(self, meter: Meter) -> None:
        self._recalls = Tally(meter, t.METRIC_RECALLS, "Queries answered", t.LABEL_OUTCOME, t.LABEL_PROFILE)
        self._searches = Tally(
            meter,
            t.METRIC_SEARCHES,
            "Searches of a source, by how they ended",
            t.LABEL_SOURCE,
            t.LABEL_STATUS,
        )
        self._items = Tally(meter, t.METRIC_ITEMS, "Memories in bundles", t.LABEL_PROFILE)
        self._fallbacks = Tally(
            meter,
            t.METRIC_FALLBACKS,
            "Searches that something else answered for the source",
            t.LABEL_SOURCE,
        )
        self._no_answers = Tally(
            meter,
            t.METRIC_NO_ANSWERS,
            "Answers withheld: nothing was asked, or nothing was sure enough",
            t.LABEL_PROFILE,
        )
        self._results = Histogram(meter, t.METRIC_RESULTS, "Memories in a bundle", t.LABEL_PROFILE, _RESULTS)
        self._tokens = Tally(meter, t.METRIC_TOKENS, "Tokens of bundles", t.LABEL_PROFILE)
        self._duration = Histogram(
            meter,
            t.METRIC_DURATION,
            "From reading a query to its commit",
            t.LABEL_PROFILE,
            _SECONDS,
            "s",
        )
        self._stages = Histogram(meter, t.METRIC_STAGE_DURATION, "Stages of a recall", t.LABEL_STAGE, _SECONDS, "s")
        self._sources = Histogram(
            meter, t.METRIC_SOURCE_DURATION, "Searches of a source", t.LABEL_SOURCE, _SECONDS, "s"
        )

    def record(self, served: ServedMessage) -> None:
        """Record one entry that this worker has answered; a refused commit means that another worker did."""
        if served.commit != "committed":
            return
        profile = served.facts.profile
        self._recalls.add(1, served.outcome, profile)
        self._duration.record(served.seconds, profile)
        if served.recalled is not None:
            self._record_recall(served.recalled, profile)

    def _record_recall(self, recalled: Recalled, profile: str) -> None:
        for stage, ms in recalled.stage_ms.items():
            self._stages.record(ms / 1000, stage)
        for report in recalled.reports:
            if report.status != "off":
                self._searches.add(1, report.source, report.status)
                self._sources.record(report.ms / 1000, report.source)
            if report.fallback is not None:
                self._fallbacks.add(1, report.source)
        if recalled.withheld is not None:
            self._no_answers.add(1, profile)
        self._results.record(len(recalled.selection.items), profile)
        self._items.add(len(recalled.selection.items), profile)
        self._tokens.add(recalled.selection.tokens, profile)


class Tally:
    """A counter by the values of its labels, in order; the meter reads it on export."""

    def __init__(self, meter: Meter, name: str, description: str, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()
        meter.create_observable_counter(name, [self._observe], description=description)

    def add(self, count: int, *values: str) -> None:
        self._counts[values] += count

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # A copy in one step: this runs in the exporting thread.
        counts = dict(self._counts)
        return [
            Observation(count, dict(zip(self._labels, values, strict=True))) for values, count in counts.items()
        ]


class Histogram:
    """A histogram by one label."""

    def __init__(
        self, meter: Meter, name: str, description: str, label: str, bounds: Sequence[float], unit: str = ""
    ) -> None:
        self._label = label
        self._histogram = meter.create_histogram(
            name, unit, description, explicit_bucket_boundaries_advisory=bounds
        )

    def record(self, value: float, of: str) -> None:
        """Record one value, for what the label says."""
        self._histogram.record(value, {self._label: of}, _NO_CONTEXT)
