"""Confidence, cascade and no-answer as models of the contracts, for reply, decision and trace."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

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
        min_relevance=run.limits.cascade.min_relevance,
        depth=run.depth,
        max_depth=run.limits.max_depth,
        ended=run.ended,
        trigger=_trigger(primary, run),
        reason=_reason(run),
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
    return NoAnswerV1(reason=withheld.reason, near_misses=withheld.near_misses)


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


def _trigger(primary: Step, run: CascadeRun) -> str:
    threshold = run.limits.threshold
    if primary.not_asked is not None:
        return f"{primary.layer} was not asked: {primary.not_asked}"
    if primary.confidence is None:
        return f"{primary.layer} found nothing"
    if primary.confidence >= threshold and not primary.is_sure(run.limits):
        if primary.relevance is None:
            return f"only words tell of the relevance of the first item of {primary.layer}"
        least = run.limits.cascade.min_relevance
        return f"the relevance {primary.relevance:.3f} of the first item of {primary.layer} is under {least:g}"
    against = "under" if primary.confidence < threshold else "not under"
    return f"the confidence {primary.confidence:.3f} of {primary.layer} is {against} the threshold {threshold:g}"


def _reason(run: CascadeRun) -> str:
    sure = [step for step in run.path if step.is_sure(run.limits)]
    if run.ended == "confident":
        surest = max(sure, key=lambda step: step.confidence or 0.0)
        return f"{surest.layer} is sure enough: {surest.confidence or 0.0:.3f}"
    best = max([step.confidence or 0.0 for step in run.path])
    if run.ended == "depth":
        return f"next layers may be asked {run.limits.max_depth} times at most; the surest layer had {best:.3f}"
    if run.ended == "no_layer":
        return f"there is no further layer; the surest layer had {best:.3f}"
    left = ", ".join(step.layer for step in run.path if step.not_asked and step.depth > run.depth)
    return f"no time was left for {left}; the surest layer had {best:.3f}"
