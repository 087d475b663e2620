"""The score of a candidate: the mean of its score parts, weighted by the profile.

score = sum(weight * part) / sum(weight) over the parts that are present. The specification's weighted sum with a
cross-encoder is this with another set of weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from orion_recall.profile import Profile
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.part_values import Column, QueryFacts, is_with_assistant, said_by_assistants
from orion_recall.scoring.parts import part_columns
from orion_recall.values import MemoryView

# Scores that are at least this share of the best one are about equal; so many of them tell nothing apart.
_ALIKE, _MANY = 0.8, 16


def score_candidates(
    candidates: Sequence[tuple[Candidate, MemoryView]], profile: Profile, facts: QueryFacts
) -> list[ScoredCandidate]:
    """Every candidate with its score, best first: by score to 1e-6, then the newer one, then by id."""
    assistants = said_by_assistants([memory for _, memory in candidates])
    with_assistant = is_with_assistant(assistants)
    weights = profile.weights(reranked=False, with_assistant=with_assistant)
    columns = part_columns(
        candidates,
        facts,
        profile.ranking_of(with_assistant=with_assistant).model_dump(),
        half_life_hours=profile.half_life_hours,
        recency_minimum=profile.recency_floor,
        assistants=assistants,
    )
    if not columns:
        return []
    values = np.array(list(columns.values()), dtype=np.float64)  # a row for each part; None becomes NaN
    scores = _combined(columns, values, weights)
    if profile.time.past_factor > 1 and facts.time.is_past(facts.now) and _time_decides(columns, scores):
        weights = profile.weights(reranked=False, with_assistant=with_assistant, time_decides=True)
        scores = _combined(columns, values, weights)
    rows = _rows(columns, values)
    return [
        ScoredCandidate(
            candidate=candidates[place][0],
            memory=candidates[place][1],
            score=scores[place],
            parts=rows[place],
            weights=weights,
        )
        for place in _places_in_order(scores, candidates)
    ]


def _places_in_order(scores: Sequence[float], candidates: Sequence[tuple[Candidate, MemoryView]]) -> list[int]:
    """The places of the candidates in the order of `in_order`."""
    keys = [
        (-score, math.inf if memory.ts is None else -memory.ts, memory.id, place)
        for place, (score, (_, memory)) in enumerate(zip(scores, candidates, strict=True))
    ]
    keys.sort()
    return [place for *_, place in keys]


def _time_decides(columns: Mapping[str, Column], scores: Sequence[float]) -> bool:
    """Whether so many memories of other times fit about equally well that the time must tell which is meant."""
    others = [score for score, fit in zip(scores, columns.get("time", ()), strict=False) if fit == 0.0]
    alike = _ALIKE * max(others, default=0.0)
    return sum(score >= alike for score in others) >= _MANY


def in_order(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Best first: by score, then the newer one, then by id."""
    return sorted(scored, key=_order)


def _order(item: ScoredCandidate) -> tuple[float, float, str]:
    newest_first = math.inf if item.memory.ts is None else -item.memory.ts
    return -item.score, newest_first, item.memory.id


def _combined(columns: Iterable[str], values: npt.NDArray[np.float64], weights: Mapping[str, float]) -> list[float]:
    """The weighted means, as `combine` gives them, for all candidates at once: parts are added in their order."""
    shares = np.array([[weights.get(name, 0.0)] for name in columns])
    missing = np.isnan(values)
    total: npt.NDArray[np.float64] = (shares * np.where(missing, 0.0, values)).sum(axis=0)
    weight: npt.NDArray[np.float64] = (shares * ~missing).sum(axis=0)
    scores: list[float] = np.round(total / np.where(weight > 0, weight, 1.0), 6).tolist()
    return scores


def _rows(columns: Mapping[str, Column], values: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """The parts of each candidate by name; a part that it does not have is left out."""
    rows: list[dict[str, float]] = [
        dict(row)  # pyright: ignore[reportArgumentType]  (what is None goes out below)
        for row in map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True))
    ]
    names = tuple(columns)
    for part, place in np.argwhere(np.isnan(values)).tolist():
        del rows[place][names[part]]
    return rows


def combine(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of the parts that are present, rounded to 1e-6; 0 when none of them weighs anything."""
    total = weight = 0.0
    for name, value in parts.items():
        share = weights[name]
        total += share * value
        weight += share
    return round(total / weight, 6) if weight > 0 else 0.0
