"""The explanation of an answer: every candidate with its sources, its score parts, and why it was kept or dropped.

Made only on request (`options.include.trace`), from what the recall found out anyway. Memories that may not be seen
(out of scope, deleted) are counted in `dropped` and not named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from orion_recall.contracts.decision import SuccessionV1
from orion_recall.recall.bundle.selection import DropReason
from orion_recall.recall.candidates.fuse import rrf_score
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.ranking.calendar_order import telling_of
from orion_recall.recall.report.confidence import cascade_json, confidence_json
from orion_recall.recall.report.explain_words import why_first, why_recap
from orion_recall.recall.report.shared_names import first_names_shared
from orion_recall.recall.search.said_search import asks_of_others
from orion_recall.recall.types import Recalled
from orion_recall.recall.understand.summary import understood
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.text.zones import time_zone
from orion_recall.values import MemoryView, Scope, SuccessionLink

MOST_RANKED, MOST_OTHERS = 40, 20
_TEXT_CHARS = 200
_STATEMENTS = 5
# Memories dropped for these reasons are not named: not even that they exist may be told.
_UNSEEN: frozenset[DropReason] = frozenset({"filtered", "deleted", "missing"})
_DIGITS = 6
_CALENDAR = (
    "The question is taken as one about a calendar: what tells of its time comes first, days in the order of time, "
    "then what comes every week and what takes longer; the others are best first."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a score: its value in [0, 1], its weight, and its share of the score."""

    name: str
    value: float
    weight: float
    share: float


def score_shares(item: ScoredCandidate) -> list[Part]:
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
    """The trace of a recall, as JSON."""
    told: dict[str, Any] = {"stage_ms": dict(recalled.stage_ms), "ranked": len(recalled.ranked)}
    if recalled.understood is not None:
        told["understood"] = understood(recalled.understood)
        told["zone"] = recalled.understood.zone
        question = recalled.understood.question
        told["searched"] = {
            "by_meaning": question.dense_text,
            "by_words": question.keyword_text,
            "named_speaker": recalled.understood.named_speaker,
        }
    if recalled.confidence.answerable.signals:
        told["answer_signals"] = dict(recalled.confidence.answerable.signals)
    if recalled.strategy is not None:
        told["strategy"] = recalled.strategy
    if recalled.render is not None:
        told["render"] = recalled.render.model_dump(mode="json")
    if recalled.cascade is not None:
        told["cascade"] = cascade_json(recalled.cascade, recalled.confidence, recalled.selection).model_dump(
            mode="json"
        )
    if recalled.result is not None:
        told |= _candidates(recalled, recalled.result)
    if (notes := first_names_shared(recalled)) and "why" in told:
        told["why"] = [*told["why"], *notes]
    return told


def _candidates(recalled: Recalled, result: PassResult) -> dict[str, Any]:
    ranked = recalled.ranked[:MOST_RANKED]
    confidences = recalled.cascade.confidences if recalled.cascade else recalled.confidence.items
    kept = {item.scored.candidate.key for item in recalled.selection.items}
    names = {item.candidate.key: item.memory.id for item in (*result.scored, *recalled.ranked)}
    told = [
        _ranked(item, recalled, place, confidences.get(item.candidate.key), is_kept=item.candidate.key in kept)
        for place, item in enumerate(ranked, start=1)
    ]
    others = [
        {
            **_of(candidate, memory),
            **_named_scores(candidate, item, recalled),
            **_before(item, is_merged=recalled.cascade is not None and recalled.cascade.is_merged),
            "dropped": {"reason": reason, "for": names.get(for_key or 0)},
        }
        for candidate, memory, item, reason, for_key in left_out(
            result, {item.candidate.key for item in recalled.ranked}
        )
    ]
    return {
        "why": _why(recalled),
        "candidates": told + others[:MOST_OTHERS],
        "not_listed": len(recalled.ranked) - len(ranked) + len(others[MOST_OTHERS:]),
    }


def _why(recalled: Recalled) -> list[str]:
    known = recalled.understood
    if known is not None and known.shape == "recap":
        time = known.question.time
        return why_recap(
            recalled.selection,
            of_session=not time.intervals,
            is_widened=time.widened,
        )
    now = known.question.now if known is not None else 0.0
    may_name = _may_name(recalled)
    layers: Mapping[int, str] = recalled.cascade.layers if recalled.cascade else {}
    me = None if known is None or known.asker in known.people else known.asker
    in_order = known is not None and telling_of([item.scored for item in recalled.selection.items], known)
    firsts = why_first(
        recalled.selection,
        score_shares,
        layers,
        now=now,
        may_name=may_name,
        asker=me,
        names_time=known is not None and bool(known.question.time.intervals),
        searched_of=known.said_by.speakers if known is not None and asks_of_others(known.said_by) else (),
        zone=time_zone(known.zone) if known is not None else UTC,
    )
    return [_CALENDAR, *firsts] if in_order else firsts


def _may_name(recalled: Recalled) -> Callable[[int], bool]:
    """Whether a memory is in the query's scope, by its key; of a narrow scope only what was read is known."""
    if recalled.scope == Scope(tenant=recalled.scope.tenant):
        return lambda _: True
    return {item.candidate.key for item in recalled.ranked}.__contains__


def left_out(
    result: PassResult, ranked: set[int]
) -> list[tuple[Candidate, MemoryView, ScoredCandidate | None, DropReason, int | None]]:
    """Candidates dropped before the final order that may be named, best first: by score, then by fused score."""
    scored = {item.candidate.key: item for item in result.scored}
    told: list[tuple[Candidate, MemoryView, ScoredCandidate | None, DropReason, int | None]] = []
    for candidate in result.pool:
        why, item = result.dropped.each.get(candidate.key), scored.get(candidate.key)
        memory = item.memory if item else result.memories.get(candidate.key)
        if candidate.key in ranked or why is None or why.reason in _UNSEEN or memory is None:
            continue
        told.append((candidate, memory, item, why.reason, why.for_key))
    return sorted(told, key=lambda one: (one[2] is None, -(one[2].score if one[2] else one[0].fused)))


def _ranked(
    item: ScoredCandidate, recalled: Recalled, place: int, confidence: Confidence | None, *, is_kept: bool
) -> dict[str, Any]:
    key = item.candidate.key
    reason = recalled.selection.left_out.get(key)
    told = {"place": place, "kept": is_kept, **_of(item.candidate, item.memory)}
    told |= {**_named_scores(item.candidate, item, recalled), **_score(item)}
    told["dropped"] = {"reason": reason, "for": None} if reason else None
    for name, link in (("succeeds", succession(item.succeeds)), ("ended_by", succession(item.ended))):
        if link is not None:
            told[name] = link.model_dump(mode="json")
    told["confidence"] = confidence_json(confidence).model_dump(mode="json") if confidence else None
    if recalled.cascade is not None:
        told["layer"] = recalled.cascade.layers[key]
        if (before := recalled.cascade.before.get(key)) is not None:
            told["before_merge"] = _score(before)
    return told


def succession(link: SuccessionLink | None) -> SuccessionV1 | None:
    """A succession that moved, marked or dropped an item, as decision and trace have it."""
    if link is None:
        return None
    return SuccessionV1(id=link.id, reason=link.reason, evidence=list(link.evidence))


def _before(item: ScoredCandidate | None, *, is_merged: bool) -> dict[str, Any]:
    """The score of a dropped item; a layer's score is on another scale than a merged one."""
    if item is None or not is_merged:
        return _score(item)
    return {**_score(None), "before_merge": _score(item)}


def _score(item: ScoredCandidate | None) -> dict[str, Any]:
    if item is None:
        return {"score": None, "parts": []}
    parts = [
        {"part": part.name, "value": part.value, "weight": part.weight, "share": part.share}
        for part in score_shares(item)
    ]
    return {"score": item.score, "parts": parts}


def _named_scores(candidate: Candidate, item: ScoredCandidate | None, recalled: Recalled) -> dict[str, Any]:
    """The raw score of reciprocal rank fusion, and the cross-encoder's where it judged the memory."""
    fusing = recalled.result.fusing if recalled.result else None
    told: dict[str, Any] = {"rrf_score": round(rrf_score(candidate, fusing), _DIGITS)} if fusing else {}
    judged = recalled.reranking.judged if recalled.reranking else frozenset[int]()
    if item is not None and candidate.key in judged and "rerank" in item.parts:
        told["cross_encoder_score"] = round(item.parts["rerank"], _DIGITS)
    return told


def _of(candidate: Candidate, memory: MemoryView) -> dict[str, Any]:
    """The memory, and the sources that found it with their ranks and scores."""
    return {
        "id": memory.id,
        "kind": memory.kind,
        "speaker": memory.speaker,
        "ts": memory.ts,
        "text": memory.best_text[:_TEXT_CHARS],
        "fused": round(candidate.fused, _DIGITS),
        "sources": {
            str(source): {"rank": rank, "score": round(candidate.scores[source], _DIGITS)}
            for source, rank in candidate.ranks.items()
            if source in candidate.scores
        },
        "led_by": candidate.led_by or None,
        "statements": list(candidate.statements[:_STATEMENTS]),
    }
