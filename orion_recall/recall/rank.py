"""The score: named parts in [0, 1], weighted by the profile, and the near-duplicates reduced to their best.

score = sum(weight * part) / sum(weight) over the parts that are present. The seed's weighted sum with a
cross-encoder is this with another set of weights.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from orion_recall.profile import Profile
from orion_recall.recall.when.overlap import overlap, tells_time
from orion_recall.text import words
from orion_recall.values import NO_TIME, Candidate, MemoryView, QuestionTime, ScoredCandidate

UNDATED_RECENCY = 0.5
_NOTHING: Mapping[int, float] = {}
_NO_PARTS: Mapping[str, Mapping[int, float]] = {}
# Texts that share nine tenths of their words and pairs differ in far fewer of the 64 bits; what passes is compared
# word by word.
_NEAR_BITS = 16


def score_candidates(
    candidates: Sequence[tuple[Candidate, MemoryView]],
    profile: Profile,
    *,
    now: float,
    named_speaker: str | None = None,
    similarities: Mapping[int, float] = _NOTHING,
    time: QuestionTime = NO_TIME,
    session_id: str | None = None,
    followed: Mapping[str, Mapping[int, float]] = _NO_PARTS,
) -> list[ScoredCandidate]:
    """Every candidate with its score, best first: by score to 1e-6, then the newer one, then by id.

    `similarities` are the cosines, by key, of all that the dense search found, candidate or not: a turn is
    the better for standing beside a good one, since people answer a question one turn later. An undated memory
    is neither of the time that the question names nor of another: it has no part `time`. `followed` are further
    parts by key, 0 for whoever is not in them.
    """
    weights: dict[str, float] = profile.ranking.model_dump()
    half_life, floor = profile.time_decay_half_life_hours, profile.recency_floor
    # A memory that the dense search did not reach is no closer than the last one that it did.
    reached = [candidate.scores["vector"] for candidate, _ in candidates if "vector" in candidate.scores]
    farthest = _share(min(reached)) if reached else None
    best_fused = max([candidate.fused for candidate, _ in candidates], default=0.0) or 1.0
    named_session = session_named(candidates, time, session_id)
    on_a_path = any(candidate.path for candidate, _ in candidates)
    scored: list[ScoredCandidate] = []
    for candidate, memory in candidates:
        parts = {"fusion": candidate.fused / best_fused if weights["fusion"] else 0.0}
        if farthest is not None:
            near = candidate.scores.get("vector")
            parts["similarity"] = farthest if near is None else _share(near)
            beside = farthest
            for key in memory.beside:
                if (near := similarities.get(key)) is not None and near > beside:
                    beside = _share(near)
            parts["neighbour"] = beside
        parts["recency"] = recency(memory.ts, now, half_life_hours=half_life, floor=floor)
        if named_speaker is not None:
            parts["speaker"] = 1.0 if memory.speaker == named_speaker else 0.0
        if time.intervals and (near := overlap(time.intervals, memory.ts, memory.until)) is not None:
            parts["time"] = near
        elif named_session is not None:
            parts["time"] = 1.0 if memory.session_id == named_session else 0.0
        if time.asks_when and weights["tells_time"]:
            parts["tells_time"] = 1.0 if tells_time(memory.text) else 0.0
        if on_a_path:
            parts["path"] = candidate.path
        for name, shares in followed.items():
            parts[name] = shares.get(candidate.key, 0.0)
        scored.append(
            ScoredCandidate(candidate=candidate, memory=memory, score=combine(parts, weights), parts=parts)
        )
    return in_order(scored)


def session_named(
    candidates: Iterable[tuple[Candidate, MemoryView]], time: QuestionTime, session_id: str | None
) -> str | None:
    """The first or last session, as the question says, of those found; the query's own is neither."""
    if time.session is None:
        return None
    sessions = [
        (memory.ts, memory.session_id)
        for _, memory in candidates
        if memory.ts is not None and memory.session_id is not None and memory.session_id != session_id
    ]
    return (min if time.session == "first" else max)(sessions, default=(0.0, None))[1]


def in_order(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Best first: by score, then the newer one, then by id."""
    return sorted(scored, key=_order)


def _share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)


def _order(item: ScoredCandidate) -> tuple[float, float, str]:
    newest_first = math.inf if item.memory.ts is None else -item.memory.ts
    return -item.score, newest_first, item.memory.id


def combine(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of the parts that are present, rounded to 1e-6; 0 when none of them weighs anything."""
    total = weight = 0.0
    for name, value in parts.items():
        share = weights[name]
        total += share * value
        weight += share
    return round(total / weight, 6) if weight > 0 else 0.0


def recency(ts: float | None, now: float, *, half_life_hours: float, floor: float) -> float:
    """0.5 ^ (age / half-life), never below the floor; 0.5 when undated, 1 for what lies ahead."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(floor, 0.5 ** (age_hours / half_life_hours))


def near_duplicates(scored: Sequence[ScoredCandidate], similarity: float) -> set[int]:
    """The places of those that repeat one placed before them that is itself kept.

    Two memories are the same when their normal forms are equal, or when their signatures are near and their
    words overlap (Jaccard) by `similarity` at least.
    """
    repeated: set[int] = set()
    first: dict[str, int] = {}
    for place, item in enumerate(scored):
        if first.setdefault(item.memory.text_hash, place) != place:
            repeated.add(place)
    split: dict[int, frozenset[str]] = {}
    for earlier, later in _near_pairs(scored):
        if earlier in repeated or later in repeated:
            continue
        for place in (earlier, later):
            if place not in split:
                split[place] = frozenset(words(scored[place].memory.text))
        if jaccard(split[earlier], split[later]) >= similarity:
            repeated.add(later)
    return repeated


def jaccard(a: Collection[str], b: Collection[str]) -> float:
    """The share of words that two texts have in common; 0 for two without words, of which nothing is known."""
    one, other = frozenset(a), frozenset(b)
    return len(one & other) / len(one | other) if one or other else 0.0


def _near_pairs(scored: Sequence[ScoredCandidate]) -> list[tuple[int, int]]:
    """Pairs of places whose signatures differ in few bits, in the order in which the loop must see them."""
    places = [place for place, item in enumerate(scored) if item.memory.simhash is not None]
    signatures = np.array([scored[place].memory.simhash for place in places], dtype=np.int64).view(np.uint64)
    differing = np.bitwise_count(signatures[:, None] ^ signatures[None, :])
    rows, columns = np.nonzero(np.triu(differing <= _NEAR_BITS, k=1))
    return [(places[row], places[column]) for row, column in zip(rows.tolist(), columns.tolist(), strict=True)]
