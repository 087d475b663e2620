"""The trace of a recall as JSON: codes, ids and numbers, of which `sentences` makes words for people.

It is made on request (`options.include.trace`) from the recall, or later from the decision that kept its
candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orion_recall.contracts import BundleStats, CandidateV1, RecallDecisionV1
from orion_recall.recall.candidates.fuse import rrf_score
from orion_recall.recall.report.decision import candidates_of, cascade_json, confidence_json, left_out, understood
from orion_recall.recall.types import Recalled

Json = Mapping[str, Any]

MOST_CANDIDATES = 60
_TEXT_CHARS = 200
_STATEMENTS = 5
_OF_MEMORY = ("kind", "speaker", "session_id", "ts", "chatter")
_DIGITS = 6


def score_shares(candidate: CandidateV1) -> list[dict[str, Any]]:
    """The parts of a candidate's score, the largest share first; the shares add up to the score exactly."""
    whole = sum(candidate.weights.values())
    if candidate.score is None or whole <= 0:
        return []
    weighted = [(name, value, candidate.weights.get(name, 0.0)) for name, value in candidate.parts.items()]
    shares = apportioned([value * weight / whole for _, value, weight in weighted], candidate.score, _DIGITS)
    made = [
        {"part": name, "value": value, "weight": weight, "share": share}
        for (name, value, weight), share in zip(weighted, shares, strict=True)
    ]
    return sorted(made, key=lambda part: (-part["share"], -part["weight"], part["part"]))


def apportioned(values: Sequence[float], total: float, digits: int) -> list[float]:
    """The values rounded to so many digits so that they add up to the total, their sum: the largest remainders are
    rounded up."""
    unit = 10**digits
    units = [math.floor(value * unit) for value in values]
    left = round(round(total, digits) * unit) - sum(units)  # as the total is printed
    by_remainder = sorted(range(len(values)), key=lambda place: units[place] - values[place] * unit)
    for place in by_remainder[: max(left, 0)]:
        units[place] += 1
    for place in reversed(by_remainder[left:] if left < 0 else ()):
        units[place] -= 1
    return [round(whole / unit, digits) for whole in units]


def explained(recalled: Recalled) -> dict[str, Any]:
    """The trace of a recall, with the beginnings of its candidates' texts."""
    cascade = cascade_json(recalled)
    figures: dict[str, Any] = {
        "stage_ms": dict(recalled.stage_ms),
        "ranked": len(recalled.ranked),
        "answer_signals": dict(recalled.confidence.signals) or None,
        "strategy": recalled.strategy,
        "render": None if recalled.render is None else recalled.render.model_dump(mode="json"),
        "cascade": None if cascade is None else cascade.model_dump(mode="json"),
    }
    if (known := recalled.understood) is not None:
        figures["understood"] = understood(known)
        figures["zone"] = known.zone
        figures["searched"] = {
            "by_meaning": known.question.dense_text,
            "by_words": known.question.keyword_text,
            "named_speaker": known.named_speaker,
        }
    if recalled.result is None:
        return _trace(figures, None, {})
    in_order = [one for item in recalled.ranked for one in (item, *item.same)]
    others = left_out(recalled.result, {item.candidate.key for item in in_order})
    figures["not_listed"] = max(len(in_order) + len(others) - MOST_CANDIDATES, 0)
    return _trace(figures, candidates_of(recalled, MOST_CANDIDATES), _of_memories(recalled))


def explained_decision(decision: RecallDecisionV1) -> dict[str, Any]:
    """The trace of a decision that kept its candidates; texts of memories are in neither."""
    figures: dict[str, Any] = {
        "stage_ms": dict(decision.stage_ms),
        "understood": None if decision.understood is None else dict(decision.understood),
        "zone": (decision.asked or {}).get("zone"),
        "strategy": decision.strategy,
        "cascade": None if decision.cascade is None else decision.cascade.model_dump(mode="json"),
    }
    sure = [(one.id, one.confidence) for one in decision.selected if one.confidence]
    known = {name: {"confidence": confidence.model_dump(mode="json")} for name, confidence in sure}
    return _trace(figures, decision.candidates or (), known)


def stats_of(decision: RecallDecisionV1) -> BundleStats:
    """The figures of the answer, as its reply had them."""
    return BundleStats(
        backend_counts=decision.backend_counts,
        latency_ms=decision.latency_ms,
        profile=decision.profile,
        outcome=decision.outcome,
        decision_id=decision.id,
        tokens=decision.tokens,
        dropped=decision.dropped,
        sources=decision.sources,
        confidence=decision.confidence,
        probability=decision.answer_probability,
        unsure=decision.unsure,
        no_answer=decision.no_answer,
    )


def _trace(figures: Json, candidates: Sequence[CandidateV1] | None, known: Mapping[str, Json]) -> dict[str, Any]:
    trace = {name: value for name, value in figures.items() if value is not None}
    if candidates is not None:
        trace["candidates"] = [_candidate(one, known.get(one.id, {})) for one in candidates]
    return trace


def _candidate(one: CandidateV1, known: Json) -> dict[str, Any]:
    links: dict[str, Any] = one.model_dump(mode="json", include={"succeeds", "ended_by"}, exclude_none=True)
    scores = known.get("source_scores", {})
    return {
        **one.model_dump(include={"id", "place", "kept", "fused", "led_by", "score", "layer"}),
        "parts": score_shares(one),
        "dropped": {"reason": one.dropped, "for": one.dropped_for} if one.dropped else None,
        "confidence": None,
        **links,
        **{name: value for name, value in known.items() if name != "source_scores"},
        # Ranks, and the sources' own scores where they are known.
        "sources": {name: {"rank": rank, **scores.get(name, {})} for name, rank in one.ranks.items()},
    }


def _of_memories(recalled: Recalled) -> Mapping[str, Json]:
    assert recalled.result is not None
    confidences = recalled.cascade.confidences if recalled.cascade else recalled.confidence.items
    judged = recalled.reranking.judged if recalled.reranking else frozenset[int]()
    result, items = recalled.result, (*recalled.result.scored, *recalled.ranked)
    told: dict[str, dict[str, Any]] = {}
    pairs = [(one, result.memories.get(one.key)) for one in result.pool]
    for candidate, memory in [*pairs, *((item.candidate, item.memory) for item in items)]:
        if memory is None:
            continue
        scores = {str(source): {"score": round(score, _DIGITS)} for source, score in candidate.scores.items()}
        told[memory.id] = more = {
            **{name: getattr(memory, name) for name in _OF_MEMORY},
            "text": memory.best_text[:_TEXT_CHARS],
            "statements": list(candidate.statements[:_STATEMENTS]),
            "source_scores": scores,
        }
        if result.fusing is not None:
            more["rrf_score"] = round(rrf_score(candidate, result.fusing), _DIGITS)
    for item in items:
        key, more = item.candidate.key, told[item.memory.id]
        if key in judged and "rerank" in item.parts:
            more["cross_encoder_score"] = round(item.parts["rerank"], _DIGITS)
        if (sure := confidences.get(key)) is not None:
            more["confidence"] = confidence_json(sure).model_dump(mode="json")
    return told
