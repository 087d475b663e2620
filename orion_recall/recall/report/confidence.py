"""Confidence, cascade and no-answer as models of the contracts, for reply, decision and trace."""

from __future__ import annotations

from collections import Counter

from orion_recall.contracts import CascadeStepV1, CascadeV1, ConfidenceV1, NoAnswerV1
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.cascade.run import CascadeRun, Step
from orion_recall.recall.confidence.answer import AnswerConfidence, Withheld
from orion_recall.recall.confidence.factors import Confidence


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
        depth=run.depth,
        max_depth=run.limits.max_depth,
        ended=run.ended,
        trigger=_trigger(primary, run.limits.threshold),
        reason=_reason(run),
        merge_strategy=run.limits.cascade.merge.strategy if run.is_merged else None,
        combined=dict(layers),
        path=[_step(step) for step in run.path],
    )


def confidence_json(confidence: Confidence) -> ConfidenceV1:
    """One item's confidence and factors, rounded to 1e-6."""
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
    return NoAnswerV1(reason=withheld.reason, near_misses=withheld.near_misses)


def _step(step: Step) -> CascadeStepV1:
    return CascadeStepV1(
        layer=step.layer,
        depth=step.depth,
        hits=step.hits,
        confidence=step.confidence,
        ms=round(step.ms, 3),
        late=[str(source) for source in step.late],
        not_asked=step.not_asked,
    )


def _trigger(primary: Step, threshold: float) -> str:
    if primary.not_asked is not None:
        return f"{primary.layer} was not asked: {primary.not_asked}"
    if primary.confidence is None:
        return f"{primary.layer} found nothing"
    against = "under" if primary.confidence < threshold else "not under"
    return f"the confidence {primary.confidence:.3f} of {primary.layer} is {against} the threshold {threshold:g}"


def _reason(run: CascadeRun) -> str:
    best = max([step.confidence or 0.0 for step in run.path])
    if run.ended == "confident":
        where = next(step.layer for step in run.path if step.confidence == best)
        return f"{where} is sure enough: {best:.3f}"
    if run.ended == "depth":
        return f"next layers may be asked {run.limits.max_depth} times at most; the surest layer had {best:.3f}"
    if run.ended == "no_layer":
        return f"there is no further layer; the surest layer had {best:.3f}"
    left = ", ".join(step.layer for step in run.path if step.not_asked and step.depth > run.depth)
    return f"no time was left for {left}; the surest layer had {best:.3f}"
