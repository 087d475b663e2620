"""Figures of a recall as models of the contracts, for reply, decision and trace: sources, confidence, cascade."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from orion_recall.contracts import CascadeStepV1, CascadeV1, ConfidenceV1, NoAnswerV1, SourceStats
from orion_recall.contracts.recall import Trigger
from orion_recall.recall.bundle.lines import Selection
from orion_recall.recall.cascade import CascadeRun, Step
from orion_recall.recall.confidence.answer import AnswerConfidence, Withheld
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.recall.types import Recalled
from orion_recall.recall.understand.question import Understanding
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.values import SourceReport
from orion_recall.when.times import session_words


def cascade_json(run: CascadeRun, confidence: AnswerConfidence, selection: Selection) -> CascadeV1:
    """A cascade's path, and why it went on and ended."""
    primary, *further = run.path
    asked = [step for step in further if step.not_asked is None]
    layers = Counter(str(run.layers[item.scored.candidate.key]) for item in selection.items)
    return CascadeV1(
        primary_layer=primary.layer,
        primary_confidence=primary.confidence,
        cascaded_to=[step.layer for step in asked],
        cascade_confidences=[step.confidence for step in asked],
        final_confidence=confidence.overall,
        threshold=run.limits.threshold,
        min_relevance=run.limits.cascade.min_relevance,
        depth=run.depth,
        max_depth=run.limits.max_depth,
        ended=run.ended,
        trigger=_trigger(primary, run),
        merge_strategy=run.limits.merge.name if run.is_merged else None,
        combined=dict(layers),
        path=[_step(step) for step in run.path],
    )


@lru_cache(maxsize=256)
def confidence_json(confidence: Confidence) -> ConfidenceV1:
    """One item's confidence and factors, rounded to 1e-6: the same model for reply and decision."""
    return ConfidenceV1(
        overall=confidence.overall,
        level=confidence.level,
        semantic_relevance=round(confidence.semantic_relevance, 6),
        source_quality=round(confidence.source_quality, 6),
        recency=round(confidence.recency, 6),
        consistency=confidence.consistency,
        completeness=confidence.completeness,
    )


def no_answer_json(withheld: Withheld) -> NoAnswerV1:
    """Why the answer was withheld."""
    below = {} if withheld.value is None else {"value": withheld.value, "minimum": withheld.minimum}
    return NoAnswerV1(reason=withheld.reason, near_misses=withheld.near_misses, **below)


def backend_counts(reports: tuple[SourceReport, ...]) -> dict[str, int]:
    """Hits of every source that was asked."""
    return {report.source: len(report.hits) for report in reports if report.status != "off"}


def source_stats(recalled: Recalled) -> dict[str, SourceStats]:
    """Status, hits and milliseconds of every source, of reranking (`rerank`) and late interaction (`late`)."""
    stats = {str(report.source): _stats(report) for report in recalled.reports}
    for name, asked in (("rerank", recalled.reranking), ("late", recalled.late_interaction)):
        if asked is not None:
            stats[name] = SourceStats(
                status=asked.status, count=asked.count, ms=round(asked.ms, 3), error=asked.error
            )
    return stats


def _stats(report: SourceReport) -> SourceStats:
    fields: dict[str, Any] = {
        "status": report.status,
        "count": len(report.hits),
        "ms": round(report.ms, 3),
        "error": report.error,
    }
    if report.fallback is not None:
        fields["stood_in"] = report.fallback
    return SourceStats(**fields)


def _step(step: Step) -> CascadeStepV1:
    return CascadeStepV1(
        layer=step.layer,
        depth=step.depth,
        hits=step.hits,
        confidence=step.confidence,
        relevance=None if step.relevance is None else round(step.relevance, 6),
        ms=round(step.ms, 3),
        late=[str(source) for source in step.late],
        not_asked=step.not_asked,
    )


def _trigger(primary: Step, run: CascadeRun) -> Trigger:
    if primary.not_asked is not None:
        return "not_asked"
    if primary.confidence is None:
        return "nothing_found"
    if primary.confidence < run.limits.threshold:
        return "confidence_below_threshold"
    if primary.is_sure(run.limits):
        return "sure"
    return "relevance_unknown" if primary.relevance is None else "relevance_below_minimum"


def understood(understanding: Understanding, *, with_words: bool = True) -> dict[str, Any]:
    """JSON; `with_words` is False where no text of the query may be kept.

    Times are ISO 8601 in UTC, null where an interval has no end on that side.
    """
    time = understanding.question.time
    told: dict[str, Any] = {
        "intervals": [
            {
                "from": _instant(interval.start),
                "until": _instant(interval.end),
                "kind": interval.kind,
                **({"words": interval.words} if with_words else {}),
            }
            for interval in time.intervals
        ],
        "asks_when": time.asks_when,
        "session": None if time.session is None else session_words(time.session),
        "of": time.of if time.intervals else None,
        "widened": time.widened,
    }
    classified = understanding.classified
    rest: dict[str, Any] = {
        "class": classified.query_class,
        "shape": understanding.shape,
    }
    if with_words:
        rest["class_words"] = list(classified.words)
        rest["people"] = list(understanding.people)
        if understanding.asker is not None:
            rest["asker"] = understanding.asker
        if understanding.said_by is not None:
            rest["said_by"] = _said_by(understanding.said_by)
        rest["entities"] = [{"name": entity.name, "kind": entity.kind} for entity in understanding.entities]
    return {"time": told, **rest}


def _said_by(said: SaidBy) -> dict[str, Any]:
    """Whose words are asked for, and about what; `only`: nothing else answers, `then`: of a time as well."""
    return {
        "name": said.name,
        "speakers": list(said.speakers),
        "about": said.topic,
        "only": said.is_strict,
        "then": bool(said.intervals),
    }


def _instant(moment: float | None) -> str | None:
    """As ISO 8601; None for what is open, or beyond the years that a calendar has."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None
