"""The sum of a logged score: the share of each of its parts, by the weights of the profile that was used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from orion_recall.contracts import CandidateV1, RecallDecisionV1
from orion_recall.contracts.decision import SelectedV1
from orion_recall.errors import ProfileError
from orion_recall.profile import Profile
from orion_recall.profile.reading import parse_profile
from orion_recall.recall.ranking.score import CROWD, in_context
from orion_recall.values import QUERY_CLASSES, QUESTION_SHAPES

# Scores and parts of the log are rounded.
_CLOSE = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One part of a score: its value from 0 to 1, and its share of the score; None where weights are not known."""

    name: str
    value: float
    share: float | None


async def profile_of_text(text: str) -> Profile | None:
    """The profile that a text is; None where this version cannot read it.

    To read it takes a third of a second, in which a worker in this process goes on.
    """
    return await asyncio.to_thread(_profile_of_text, text)


@lru_cache(maxsize=64)
def _profile_of_text(text: str) -> Profile | None:
    try:
        return parse_profile(text)
    except ProfileError:
        return None


def score_parts(
    item: SelectedV1,
    decision: RecallDecisionV1,
    profile: Profile | None,
    candidates: Sequence[CandidateV1] | None = None,
) -> list[ScorePart]:
    """The parts of an item's score, the largest first; with shares where they add up to the score.

    The weights are those of the candidate, which the decision kept or asking again gave, else those of the profile.
    """
    kept = next((one.weights for one in candidates or decision.candidates or () if _is(item, one)), None)
    weights = kept if kept is not None else _weights(item, decision, profile)
    whole = sum(weights.get(name, 0.0) for name in item.parts)
    parts = [
        ScorePart(name=name, value=value, share=value * weights[name] / whole if whole else None)
        for name, value in item.parts.items()
    ]
    return sorted(parts, key=lambda part: (-(part.share or 0.0), -part.value, part.name))


def _is(item: SelectedV1, candidate: CandidateV1) -> bool:
    """Whether the candidate has the item's score, of the same parts."""
    is_same = candidate.id == item.id and candidate.score is not None and abs(candidate.score - item.score) < _CLOSE
    return is_same and item.parts.keys() == candidate.parts.keys() and item.parts.keys() <= candidate.weights.keys()


def _weights(item: SelectedV1, decision: RecallDecisionV1, profile: Profile | None) -> Mapping[str, float]:
    """The weights of the profile by which the parts give the score; none where none do, as after a merge."""
    if profile is None or not item.parts:
        return {}
    known = decision.understood or {}
    query_class, shape = known.get("class"), known.get("shape")
    if query_class in QUERY_CLASSES:
        profile = profile.for_class(query_class, shape if shape in QUESTION_SHAPES else None)
    is_reranked = "rerank" in item.parts
    of_profile = [profile.weights(reranked=is_reranked, time_decides=decides) for decides in (False, True)]
    # How many candidates there were is not kept: their number decides what the context of a memory weighs.
    nearest: Mapping[str, float] = {}
    least = _CLOSE
    for weights, candidates in product(of_profile, range(CROWD, 0, -1)):
        inside = in_context(weights, candidates)
        found = {name: inside.get(name, 0.0) for name in item.parts}
        if not (whole := sum(found.values())):
            continue
        off = abs(sum(item.parts[name] * of for name, of in found.items()) / whole - item.score)
        if off < least:
            nearest, least = found, off
    return nearest
