"""The explanation of a decision from what it kept, in the form of the trace that a recall gives at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orion_recall.contracts import BundleStats, CandidateV1, RecallDecisionV1
from orion_recall.recall.report.explain import Part, apportioned
from orion_recall.recall.report.explain_words import FOUND_BY, MOST_TOLD, ordinal
from orion_recall.scoring.parts import REASONS
from orion_recall.text.normal import one_line

_DIGITS = 6
_MOST_PARTS = 3
# Scores are shown to three digits.
_SHOWN = 5e-4


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
        no_answer=decision.no_answer,
    )


def trace_of(decision: RecallDecisionV1) -> dict[str, Any]:
    """The trace of a decision that kept its candidates; texts of memories are in neither."""
    candidates = decision.candidates or []
    sure = {one.id: one.confidence for one in decision.selected}
    told: dict[str, Any] = {
        "stage_ms": dict(decision.stage_ms),
        "why": why_kept(candidates),
        "candidates": [
            {
                **_candidate(one),
                "confidence": found.model_dump(mode="json") if (found := sure.get(one.id)) else None,
            }
            for one in candidates
        ],
    }
    if decision.understood is not None:
        told["understood"] = dict(decision.understood)
    if (zone := (decision.asked or {}).get("zone")) is not None:
        told["zone"] = zone
    if decision.strategy is not None:
        told["strategy"] = decision.strategy
    if decision.cascade is not None:
        told["cascade"] = decision.cascade.model_dump(mode="json")
    return told


def shares_of(candidate: CandidateV1) -> list[Part]:
    """The parts of a candidate's score, the largest share first; the shares add up to the score."""
    whole = sum(candidate.weights.values())
    if candidate.score is None or whole <= 0:
        return []
    exact = [value * candidate.weights.get(name, 0.0) / whole for name, value in candidate.parts.items()]
    shares = apportioned(exact, candidate.score, _DIGITS)
    made = [
        Part(name=name, value=value, weight=candidate.weights.get(name, 0.0), share=share)
        for (name, value), share in zip(candidate.parts.items(), shares, strict=True)
    ]
    return sorted(made, key=lambda part: (-part.share, -part.weight, part.name))


def why_kept(candidates: Sequence[CandidateV1]) -> list[str]:
    """A sentence or two for each of the first items: what found it, and what its score is made of."""
    kept = [one for one in candidates if one.kept]
    told: list[str] = []
    for place, one in enumerate(kept[:MOST_TOLD]):
        parts = [part for part in shares_of(one)[:_MOST_PARTS] if part.share > 0]
        made = ", ".join(f"{part.share:.3f} by {REASONS.get(part.name, f'the part {part.name}')}" for part in parts)
        ahead = _ahead(one, kept[place + 1]) if place + 1 < len(kept) else ""
        told.append(
            f"{one_line(one.id)} is {ordinal(place + 1)} with {one.score or 0.0:.3f}: "
            f"found {_found(one.ranks)}; most of its score is {made or 'its layer'}.{ahead}"
        )
    return told


def _found(ranks: Mapping[str, int]) -> str:
    best = sorted(ranks.items(), key=lambda one: (one[1], one[0]))
    return (
        " and ".join(f"{FOUND_BY.get(name, f'by {name}')} ({ordinal(rank)})" for name, rank in best)
        or "by no search itself, but with what was found"
    )


def _ahead(one: CandidateV1, following: CandidateV1) -> str:
    lead = (one.score or 0.0) - (following.score or 0.0)
    if lead < _SHOWN:
        return ""
    theirs = {part.name: part.share for part in shares_of(following)}
    gains = {part.name: part.share - theirs.get(part.name, 0.0) for part in shares_of(one)}
    most = max(gains, key=lambda name: (gains[name], name), default="")
    why = f", most of all by {REASONS.get(most, f'the part {most}')}" if most else ""
    return f" It leads the next by {lead:.3f}{why}."


def _candidate(one: CandidateV1) -> dict[str, Any]:
    parts = [
        {"part": part.name, "value": part.value, "weight": part.weight, "share": part.share}
        for part in shares_of(one)
    ]
    return {
        "place": one.place,
        "kept": one.kept,
        "id": one.id,
        "fused": one.fused,
        "sources": {name: {"rank": rank} for name, rank in one.ranks.items()},
        "score": one.score,
        "parts": parts,
        "dropped": {"reason": one.dropped, "for": one.dropped_for} if one.dropped else None,
        "layer": one.layer,
    }
