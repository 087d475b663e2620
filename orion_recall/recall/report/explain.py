"""Why an answer is what it is: every candidate with its sources, its score part by part, and what became of it.

Made only for those who ask (`options.include.trace`), of what the recall found out anyway. What may not be
seen (out of scope, deleted) is counted in `dropped` and not told here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orion_recall.recall.confidence.factors import Confidence
from orion_recall.recall.pass_result import Found
from orion_recall.recall.pipeline import Recalled
from orion_recall.recall.report.confidence import descended, how_sure
from orion_recall.recall.report.explain_words import why_first
from orion_recall.recall.understand.summary import understood
from orion_recall.values import Candidate, DropReason, MemoryView, ScoredCandidate

MOST_RANKED, MOST_OTHERS = 40, 20
_TEXT_CHARS = 200
_STATEMENTS = 5
# Of these nothing may be told: not even that they are there.
_UNSEEN: frozenset[DropReason] = frozenset({"filtered", "deleted", "missing"})
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a score: its value in [0, 1], what it weighs, and how much of the score it makes."""

    name: str
    value: float
    weight: float
    share: float


def parts_of(item: ScoredCandidate) -> list[Part]:
    """The parts of an item's score, the largest share first; the shares add up to the score, to its last digit."""
    weights = {name: item.weights.get(name, 0.0) for name in item.parts}
    whole = sum(weights.values())
    exact = [value * weights[name] / whole if whole > 0 else 0.0 for name, value in item.parts.items()]
    shares = apportioned(exact, item.score, _DIGITS)
    made = [
        Part(name=name, value=round(value, _DIGITS), weight=weights[name], share=share)
        for (name, value), share in zip(item.parts.items(), shares, strict=True)
    ]
    return sorted(made, key=lambda part: (-part.share, -part.weight, part.name))


def apportioned(values: Sequence[float], total: float, digits: int) -> list[float]:
    """The values with so many digits, such that they add up to the total: the largest remainders are rounded up.

    `total` is the values' sum but for rounding.
    """
    unit = 10**digits
    floors = [math.floor(value * unit) for value in values]
    left = round(round(total, digits) * unit) - sum(floors)  # as the total is printed
    by_remainder = sorted(range(len(values)), key=lambda place: floors[place] - values[place] * unit)
    for place in by_remainder[: max(left, 0)]:
        floors[place] += 1
    for place in reversed(by_remainder[left:] if left < 0 else ()):
        floors[place] -= 1
    return [round(floor / unit, digits) for floor in floors]


def explained(recalled: Recalled) -> dict[str, Any]:
    """The trace of a recall, as JSON."""
    told: dict[str, Any] = {"stage_ms": dict(recalled.stage_ms), "ranked": len(recalled.ranked)}
    if recalled.understood is not None:
        told["understood"] = understood(recalled.understood)
        question = recalled.understood.question
        told["searched"] = {
            "by_meaning": question.dense_text,
            "by_words": question.keyword_text,
            "named_speaker": recalled.understood.named_speaker,
        }
    if recalled.strategy is not None:
        told["strategy"] = recalled.strategy
    if recalled.descent is not None:
        told["cascade"] = descended(recalled.descent, recalled.sure, recalled.selection).model_dump(mode="json")
    if recalled.found is not None:
        told |= _candidates(recalled, recalled.found)
    return told


def _candidates(recalled: Recalled, found: Found) -> dict[str, Any]:
    ranked = recalled.ranked[:MOST_RANKED]
    sure = recalled.descent.confidences if recalled.descent else recalled.sure.items
    kept = {item.scored.candidate.key for item in recalled.selection.items}
    names = {item.candidate.key: item.memory.id for item in (*found.scored, *recalled.ranked)}
    told = [
        _ranked(item, recalled, place, sure.get(item.candidate.key), is_kept=item.candidate.key in kept)
        for place, item in enumerate(ranked, start=1)
    ]
    left_out = _left_out(found, {item.candidate.key for item in recalled.ranked})
    others = [
        {
            **_of(candidate, memory),
            **_before(item, is_merged=recalled.descent is not None and recalled.descent.is_merged),
            "dropped": {"reason": reason, "for": names.get(for_key or 0)},
        }
        for candidate, memory, item, reason, for_key in left_out
    ]
    now = recalled.understood.question.now if recalled.understood else 0.0
    return {
        "why": why_first(
            recalled.selection, parts_of, recalled.descent.layers if recalled.descent else {}, now=now
        ),
        "candidates": told + others[:MOST_OTHERS],
        "not_listed": len(recalled.ranked) - len(ranked) + len(others[MOST_OTHERS:]),
    }


def _left_out(
    found: Found, ranked: set[int]
) -> list[tuple[Candidate, MemoryView, ScoredCandidate | None, DropReason, int | None]]:
    """What was left out before ranking was done and may be told, best first: those with a score, then by fusion."""
    scored = {item.candidate.key: item for item in found.scored}
    told: list[tuple[Candidate, MemoryView, ScoredCandidate | None, DropReason, int | None]] = []
    for candidate in found.pool:
        why, item = found.dropped.each.get(candidate.key), scored.get(candidate.key)
        memory = item.memory if item else found.memories.get(candidate.key)
        if candidate.key in ranked or why is None or why.reason in _UNSEEN or memory is None:
            continue
        told.append((candidate, memory, item, why.reason, why.for_key))
    return sorted(told, key=lambda one: (one[2] is None, -(one[2].score if one[2] else one[0].fused)))


def _ranked(
    item: ScoredCandidate, recalled: Recalled, place: int, sure: Confidence | None, *, is_kept: bool
) -> dict[str, Any]:
    key = item.candidate.key
    reason = recalled.selection.left_out.get(key)
    told = {"place": place, "kept": is_kept, **_of(item.candidate, item.memory), **_score(item)}
    told["dropped"] = {"reason": reason, "for": None} if reason else None
    told["confidence"] = how_sure(sure).model_dump(mode="json") if sure else None
    if recalled.descent is not None:
        told["layer"] = recalled.descent.layers[key]
        if (before := recalled.descent.before.get(key)) is not None:
            told["before_merge"] = _score(before)
    return told


def _before(item: ScoredCandidate | None, *, is_merged: bool) -> dict[str, Any]:
    """The score of what was left out; one that a layer gave is on another scale than those of merged items."""
    if item is None or not is_merged:
        return _score(item)
    return {**_score(None), "before_merge": _score(item)}


def _score(item: ScoredCandidate | None) -> dict[str, Any]:
    if item is None:
        return {"score": None, "parts": []}
    parts = [
        {"part": part.name, "value": part.value, "weight": part.weight, "share": part.share}
        for part in parts_of(item)
    ]
    return {"score": item.score, "parts": parts}


def _of(candidate: Candidate, memory: MemoryView) -> dict[str, Any]:
    """Which memory it is, and which source found it at which rank with which score."""
    return {
        "id": memory.id,
        "kind": memory.kind,
        "speaker": memory.speaker,
        "ts": memory.ts,
        "text": memory.text[:_TEXT_CHARS],
        "fused": round(candidate.fused, _DIGITS),
        "sources": {
            str(source): {"rank": rank, "score": round(candidate.scores[source], _DIGITS)}
            for source, rank in candidate.ranks.items()
            if source in candidate.scores
        },
        "statements": list(candidate.statements[:_STATEMENTS]),
    }
