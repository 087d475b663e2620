"""How sure an answer is, and a cascade's path and why it went on and stopped, as decision and trace tell it."""

from __future__ import annotations

from collections import Counter

from orion_recall.contracts import CascadeStepV1, CascadeV1, ConfidenceV1, NoAnswerV1
from orion_recall.recall.cascade.run import Descent, Step
from orion_recall.recall.confidence.answer import Sureness, Withheld
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.values import Selection


def descended(descent: Descent, sure: Sureness, selection: Selection) -> CascadeV1:
    """The whole path."""
    primary, *further = descent.path
    asked = [step for step in further if step.not_asked is None]
    layers = Counter(str(descent.layers[item.scored.candidate.key]) for item in selection.items)
    return CascadeV1(
        primary_layer=primary.layer,
        primary_confidence=primary.confidence,
        cascaded_to=[step.layer for step in asked],
        cascade_confidences=[step.confidence for step in asked],
        final_confidence=sure.overall,
        threshold=descent.limits.threshold,
        depth=descent.depth,
        max_depth=descent.limits.max_depth,
        ended=descent.ended,
        trigger=_trigger(primary, descent.limits.threshold),
        reason=_reason(descent),
        merge_strategy=descent.limits.cascade.merge.strategy if descent.is_merged else None,
        combined=dict(layers),
        path=[_step(step) for step in descent.path],
    )


def how_sure(sure: Confidence) -> ConfidenceV1:
    """One item's factors, rounded to 1e-6."""
    return ConfidenceV1(
        overall=sure.overall,
        level=sure.level,
        semantic_relevance=round(sure.semantic_relevance, 6),
        source_quality=round(sure.source_quality, 6),
        recency=round(sure.recency, 6),
        consistency=sure.consistency,
        completeness=sure.completeness,
    )


def not_answered(withheld: Withheld) -> NoAnswerV1:
    """Why nothing was handed over."""
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


def _reason(descent: Descent) -> str:
    best = max([step.confidence or 0.0 for step in descent.path])
    if descent.ended == "confident":
        where = next(step.layer for step in descent.path if step.confidence == best)
        return f"{where} is sure enough: {best:.3f}"
    if descent.ended == "depth":
        return f"next layers may be asked {descent.limits.max_depth} times at most; the surest layer had {best:.3f}"
    if descent.ended == "no_layer":
        return f"there is no further layer; the surest layer had {best:.3f}"
    left = ", ".join(step.layer for step in descent.path if step.not_asked and step.depth > descent.depth)
    return f"no time was left for {left}; the surest layer had {best:.3f}"
