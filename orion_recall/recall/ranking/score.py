"""The score: named parts in [0, 1], weighted by the profile, and the near-duplicates reduced to their best.

score = sum(weight * part) / sum(weight) over the parts that are present. The seed's weighted sum with a
cross-encoder is this with another set of weights.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from orion_recall.profile import Profile
from orion_recall.scoring.parts import Column, parts_of
from orion_recall.text.normal import words
from orion_recall.values import ANY_TYPE, NO_TIME, AnswerType, Candidate, MemoryView, QuestionTime, ScoredCandidate

_NOTHING: Mapping[int, float] = {}
_NO_PARTS: Mapping[str, Mapping[int, float]] = {}
_NO_KEYS: frozenset[int] = frozenset()
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
    answer_type: AnswerType = ANY_TYPE,
    session_id: str | None = None,
    further: Mapping[str, Mapping[int, float]] = _NO_PARTS,
    followed: Mapping[str, Mapping[int, float]] = _NO_PARTS,
    unindexed: frozenset[int] = _NO_KEYS,
) -> list[ScoredCandidate]:
    """Every candidate with its score, best first: by score to 1e-6, then the newer one, then by id.

    The other arguments are those of `features.parts_of`.
    """
    weights = profile.weights(reranked=False)
    columns = parts_of(
        candidates,
        profile,
        now=now,
        named_speaker=named_speaker,
        similarities=similarities,
        time=time,
        answer_type=answer_type,
        session_id=session_id,
        further=further,
        followed=followed,
        unindexed=unindexed,
    )
    scores = _combined(columns, weights, len(candidates))
    scored = [
        ScoredCandidate(candidate=candidate, memory=memory, score=score, parts=parts, weights=weights)
        for (candidate, memory), score, parts in zip(candidates, scores, _rows(columns), strict=True)
    ]
    return in_order(scored)


def in_order(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Best first: by score, then the newer one, then by id."""
    return sorted(scored, key=_order)


def _order(item: ScoredCandidate) -> tuple[float, float, str]:
    newest_first = math.inf if item.memory.ts is None else -item.memory.ts
    return -item.score, newest_first, item.memory.id


def _combined(columns: Mapping[str, Column], weights: Mapping[str, float], count: int) -> list[float]:
    """What `combine` gives, for all candidates at once."""
    total, weight = np.zeros(count), np.zeros(count)
    for name, column in columns.items():
        if not (share := weights.get(name, 0.0)):
            continue
        values = np.array(column, dtype=np.float64)  # None becomes NaN
        if None in column:
            there = ~np.isnan(values)
            total[there] += share * values[there]
            weight[there] += share
        else:
            total += share * values
            weight += share
    return np.round(total / np.where(weight > 0, weight, 1.0), 6).tolist()


def _rows(columns: Mapping[str, Column]) -> list[dict[str, float]]:
    """The parts of each candidate by name, without those that it has not."""
    names = tuple(columns)
    gaps = any(None in column for column in columns.values())
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        if gaps
        else dict(zip(names, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def combine(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of the parts that are present, rounded to 1e-6; 0 when none of them weighs anything."""
    total = weight = 0.0
    for name, value in parts.items():
        share = weights[name]
        total += share * value
        weight += share
    return round(total / weight, 6) if weight > 0 else 0.0


def near_duplicates(scored: Sequence[ScoredCandidate], similarity: float) -> dict[int, int]:
    """The places of those that repeat one placed before them that is itself kept, each with that one's place.

    Two memories are the same when their normal forms are equal, or when their signatures are near and their
    words overlap (Jaccard) by `similarity` at least.
    """
    repeated: dict[int, int] = {}
    first: dict[str, int] = {}
    for place, item in enumerate(scored):
        if (same := first.setdefault(item.memory.text_hash, place)) != place:
            repeated[place] = same
    split: dict[int, frozenset[str]] = {}
    for earlier, later in _near_pairs(scored):
        if earlier in repeated or later in repeated:
            continue
        for place in (earlier, later):
            if place not in split:
                split[place] = frozenset(words(scored[place].memory.text))
        if jaccard(split[earlier], split[later]) >= similarity:
            repeated[later] = earlier
    return {place: _kept(place, repeated) for place in repeated}


def _kept(place: int, repeated: Mapping[int, int]) -> int:
    """The first of a chain of repeats: the one that is kept."""
    while place in repeated:
        place = repeated[place]
    return place


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
