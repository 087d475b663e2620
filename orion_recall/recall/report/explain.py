"""The trace of a recall as JSON: codes, ids and numbers, of which `sentences` makes words for people.

It is made on request (`options.include.trace`) from the recall itself, or later from the decision that kept its
candidates: by one function, from the candidates as the decision log has them. Memories that may not be seen (out of
scope, deleted) are counted in `dropped` and are not candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orion_recall.contracts import BundleStats, RecallDecisionV1
from orion_recall.contracts.recall import CandidateV1
from orion_recall.recall.candidates.fuse import rrf_score
from orion_recall.recall.report.decision import candidates_of, cascade_json, confidence_json, left_out, understood
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView

Json = Mapping[str, Any]

MOST_CANDIDATES = 60
_TEXT_CHARS = 200
_STATEMENTS = 5
_DIGITS = 6


def score_shares(candidate: CandidateV1) -> list[dict[str, Any]]:
    """The parts of a candidate's score, the largest share first; the shares add up to the score exactly."""
    whole = sum(candidate.weights.values())
    if candidate.score is None or whole <= 0:
        return []
    weights = {name: candidate.weights.get(name, 0.0) for name in candidate.parts}
    exact = [value * weights[name] / whole for name, value in candidate.parts.items()]
    made = [
        {"part": name, "value": value, "weight": weights[name], "share": share}
        for (name, value), share in zip(
            candidate.parts.items(), apportioned(exact, candidate.score, _DIGITS), strict=True
        )
    ]
    return sorted(made, key=lambda part: (-part["share"], -part["weight"], part["part"]))


def apportioned(values: Sequence[float], total: float, digits: int) -> list[float]:
    """The values rounded to so many digits so that they add up to the total: the largest remainders are rounded up.

    `total` is the values' sum, apart from rounding.
    """
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
    figures: dict[str, Any] = {"stage_ms": dict(recalled.stage_ms), "ranked": len(recalled.ranked)}
    if (known := recalled.understood) is not None:
        figures["understood"] = understood(known)
        figures["zone"] = known.zone
        figures["searched"] = {
            "by_meaning": known.question.dense_text,
            "by_words": known.question.keyword_text,
            "named_speaker": known.named_speaker,
        }
    figures |= {
        "answer_signals": dict(recalled.confidence.signals) or None,
        "strategy": recalled.strategy,
        "render": None if recalled.render is None else recalled.render.model_dump(mode="json"),
    }
    if (cascade := cascade_json(recalled)) is not None:
        figures["cascade"] = cascade.model_dump(mode="json")
    if recalled.result is None:
        return _trace(figures, None)
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
    sure = {one.id: one.confidence.model_dump(mode="json") for one in decision.selected if one.confidence}
    return _trace(
        figures, decision.candidates or (), {name: {"confidence": confidence} for name, confidence in sure.items()}
    )


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


def _trace(
    figures: Json, candidates: Sequence[CandidateV1] | None, of_memories: Mapping[str, Json] | None = None
) -> dict[str, Any]:
    trace = {name: value for name, value in figures.items() if value is not None}
    if candidates is not None:
        trace["candidates"] = [_candidate(one, (of_memories or {}).get(one.id, {})) for one in candidates]
    return trace


def _candidate(one: CandidateV1, known: Json) -> dict[str, Any]:
    links = {name: link for name in ("succeeds", "ended_by") if (link := getattr(one, name)) is not None}
    scores = known.get("source_scores", {})
    return {
        "id": one.id,
        "place": one.place,
        "kept": one.kept,
        "fused": one.fused,
        "led_by": one.led_by,
        "score": one.score,
        "parts": score_shares(one),
        "dropped": {"reason": one.dropped, "for": one.dropped_for} if one.dropped else None,
        "layer": one.layer,
        "confidence": None,
        **{name: link.model_dump(mode="json") for name, link in links.items()},
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
        if memory is not None:
            told[memory.id] = more = _of_memory(candidate, memory)
            if result.fusing is not None:
                more["rrf_score"] = round(rrf_score(candidate, result.fusing), _DIGITS)
    for item in items:
        key, more = item.candidate.key, told[item.memory.id]
        if key in judged and "rerank" in item.parts:
            more["cross_encoder_score"] = round(item.parts["rerank"], _DIGITS)
        if (sure := confidences.get(key)) is not None:
            more["confidence"] = confidence_json(sure).model_dump(mode="json")
    return told


def _of_memory(candidate: Candidate, memory: MemoryView) -> dict[str, Any]:
    return {
        "kind": memory.kind,
        "speaker": memory.speaker,
        "session_id": memory.session_id,
        "ts": memory.ts,
        "chatter": memory.chatter,
        "text": memory.best_text[:_TEXT_CHARS],
        "statements": list(candidate.statements[:_STATEMENTS]),
        "source_scores": {
            str(source): {"score": round(score, _DIGITS)} for source, score in candidate.scores.items()
        },
    }
