"""The confidence of an item: five factors in [0, 1], weighted by the specification's formula.

overall = 0.35 semantic relevance + 0.25 source quality + 0.15 recency + 0.15 consistency + 0.10 completeness

A score is relative to the best candidate of its query. A confidence is not relative to anything, so that it can be
compared with a threshold. The confidence of an answer is that of its first item.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from orion_recall.profile import Profile
from orion_recall.scoring.candidates import ScoredCandidate, recency
from orion_recall.sources.record import MemoryUse
from orion_recall.text.normal import content_words, stems
from orion_recall.values import MemoryView, Question

Level = Literal["low", "medium", "high"]

MEDIUM_FROM, HIGH_FROM = 0.5, 0.75

RELEVANCE_WEIGHT = 0.35
QUALITY_WEIGHT = 0.25
RECENCY_WEIGHT = 0.15
CONSISTENCY_WEIGHT = 0.15
COMPLETENESS_WEIGHT = 0.1

# The source quality of a memory by its kind; _OTHER_QUALITY for other kinds and for none.
QUALITY: Mapping[str, float] = {
    "world": 0.9,
    "experience": 0.85,
    "observation": 0.85,
    "procedure": 0.8,
    "plan": 0.7,
    "task": 0.7,
    "opinion": 0.6,
}
_OTHER_QUALITY = 0.7
_FOUND_TWICE = 0.05
_UNSURE_SENDER, _FEEDBACK, _IN_ANSWERS = 0.6, 0.4, 0.05
NO_USE = MemoryUse()
NEVER_USED: Mapping[str, MemoryUse] = {}

TOLD_ONCE, CONFIRMED, DOUBTED = 0.7, 1.0, 0.3
CONFIRMING_TAGS = frozenset({"confirmed", "verified"})
DOUBTING_TAGS = frozenset({"contradicted", "disputed", "doubtful", "outdated", "unconfirmed", "unverified"})


class Confidence(NamedTuple):
    """The five factors of one item, and `overall` (rounded to 1e-6) as a number and as a level."""

    overall: float
    level: Level
    semantic_relevance: float
    source_quality: float
    recency: float
    consistency: float
    completeness: float


def confidences(
    items: Iterable[ScoredCandidate],
    among: Sequence[ScoredCandidate],
    question: Question,
    profile: Profile,
    *,
    repeated: Collection[int] = (),
    uses: Mapping[str, MemoryUse] = NEVER_USED,
) -> dict[int, Confidence]:
    """The confidence of each item, by its memory's key.

    `among` are all items ranked with them: where the dense search answered, an item that it did not reach counts as
    the farthest item that it did reach. `repeated` are the keys of items that a near-duplicate repeats.
    `uses` tell how memories were used, by their id.
    """
    reached = [item.candidate.scores["vector"] for item in among if "vector" in item.candidate.scores]
    farthest = min(reached) if reached else None
    asked = stems(frozenset(content_words(question.text))) if farthest is None else frozenset[str]()
    return {
        item.candidate.key: confidence(
            relevance=semantic_relevance(item, asked, farthest=farthest),
            quality=source_quality(
                item.memory.guessed_kind or item.memory.kind,
                sources=len(item.candidate.ranks),
                sender=item.memory.confidence,
                use=uses.get(item.memory.id, NO_USE),
            ),
            recency=recency(
                item.memory.ts,
                question.now,
                half_life_hours=profile.half_life_hours,
                minimum=profile.recency_floor,
            ),
            consistency=consistency(item.memory.tags, is_repeated=item.candidate.key in repeated),
            completeness=completeness(item.memory),
        )
        for item in items
    }


def confidence(
    *, relevance: float, quality: float, recency: float, consistency: float, completeness: float
) -> Confidence:
    """The confidence by the formula."""
    overall = round(
        RELEVANCE_WEIGHT * relevance
        + QUALITY_WEIGHT * quality
        + RECENCY_WEIGHT * recency
        + CONSISTENCY_WEIGHT * consistency
        + COMPLETENESS_WEIGHT * completeness,
        6,
    )
    return Confidence(
        overall=overall,
        level=level(overall),
        semantic_relevance=relevance,
        source_quality=quality,
        recency=recency,
        consistency=consistency,
        completeness=completeness,
    )


def level(overall: float) -> Level:
    """low under 0.5, medium under 0.75, else high."""
    return "high" if overall >= HIGH_FROM else "medium" if overall >= MEDIUM_FROM else "low"


def semantic_relevance(item: ScoredCandidate, asked: frozenset[str], *, farthest: float | None) -> float:
    """How close the memory is to the question: the reranker's score, else its cosine, negative ones as 0.

    Where the dense search was not asked or did not answer: the share of the question's words that the memory or its
    statements have; `asked` are their stems.
    """
    if (judged := item.parts.get("rerank")) is not None:
        return judged
    near = item.candidate.scores.get("vector", farthest)
    if near is not None:
        return min(max(near, 0.0), 1.0)
    return len(asked & stems(frozenset(content_words(_said(item))))) / len(asked) if asked else 0.0


def source_quality(
    kind: str | None, *, sources: int, sender: float | None = None, use: MemoryUse = NO_USE
) -> float:
    """What is known of the memory as a source, in [0, 1].

    The quality of its kind; 0.05 more when several sources found it; 0.6 of that where its sender was not sure at
    all, all of it where the sender was or did not say; up to 0.2 more or less by feedback; up to 0.05 more for
    having been among the first of many answers.
    """
    quality = QUALITY.get(kind or "", _OTHER_QUALITY) + (_FOUND_TWICE if sources > 1 else 0.0)
    if sender is not None:
        quality *= _UNSURE_SENDER + (1 - _UNSURE_SENDER) * sender
    if use is not NO_USE:
        quality += _FEEDBACK * ((use.used + 1) / (use.used + use.wrong + 2) - 0.5)
        quality += min(_IN_ANSWERS, 0.01 * math.log2(1 + use.accesses))
    return min(max(quality, 0.0), 1.0)


def consistency(tags: Collection[str], *, is_repeated: bool) -> float:
    """1 when a tag or another memory confirms the memory, 0.3 when a tag doubts it, else 0.7."""
    if not DOUBTING_TAGS.isdisjoint(tags):
        return DOUBTED
    return CONFIRMED if is_repeated or not CONFIRMING_TAGS.isdisjoint(tags) else TOLD_ONCE


def completeness(memory: MemoryView) -> float:
    """The share of five things that are known: its time, its speaker or title, its origin, names, tags."""
    known = 0 if memory.ts is None else 1
    known += bool(memory.speaker or memory.title)
    known += bool(memory.session_id or memory.source_ref or memory.uri)
    return (known + bool(memory.entities) + bool(memory.tags)) / 5


def _said(item: ScoredCandidate) -> str:
    memory = item.memory
    return " ".join(filter(None, (memory.title, memory.speaker, memory.text, *item.candidate.statements)))
