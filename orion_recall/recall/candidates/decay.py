"""Decay: fused scores times exp(-lambda * age), for `fusion.method: bm25_decay`.

score = BM25 * exp(-lambda * t), t in hours (the analysis of retrieval, rank 1). The factor never falls below
`recency_floor`: without it, 0.01 an hour would leave 0.0007 after a month, and only the newest would be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orion_recall.interfaces import MemoryReader
from orion_recall.profile import Profile
from orion_recall.recall.candidates.fetch import fetch, keys_to_fetch, read_of
from orion_recall.recall.search.all_sources import index_is_away
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.part_values import recency
from orion_recall.values import MemoryView, SourceReport

Decay = Callable[[MemoryView], float]
"""The factor of a memory, as of the query's clock: as recency, 0.5 for a memory without a time."""


def decay_of(profile: Profile, now: float) -> Decay | None:
    """The factor of a memory's age, exp(-lambda * age) and 1 in the future; None where fusion has no decay."""
    if profile.fusion.method != "bm25_decay":
        return None
    half_life, least = profile.half_life_hours, profile.recency_floor
    return lambda memory: recency(memory.ts, now, half_life_hours=half_life, minimum=least)


async def newest_favoured(
    pool: Sequence[Candidate],
    decay: Decay | None,
    most: int,
    reports: Sequence[SourceReport],
    readers: Sequence[MemoryReader],
    timeout_s: float,
) -> Sequence[Candidate]:
    """The candidates in the order of their decayed scores, `most` at most; the pool as it is without a decay.

    Their memories are read for that. Scores stay as they are. Candidates that cannot be read come last.
    """
    if decay is None:
        return pool
    memories = await fetch(keys_to_fetch(pool, reports), readers, timeout_s=timeout_s)
    scores = dict.fromkeys((candidate.key for candidate in pool), 0.0)
    for candidate in pool:
        if (memory := memories.get(candidate.key) or read_of(candidate)) is not None:
            scores[candidate.key] = candidate.fused * decay(memory)
    ordered = sorted(pool, key=lambda one: (-round(scores[one.key], 9), one.key))
    if index_is_away(reports):
        return ordered[:most]
    # Beyond the limit only those that bring their text, as fusion itself keeps them.
    return [*ordered[:most], *(one for one in ordered[most:] if one.key not in memories and one.read is not None)]


def with_decay(
    kept: Sequence[tuple[Candidate, MemoryView]], decay: Decay | None
) -> list[tuple[Candidate, MemoryView]]:
    """The candidates with decayed fused scores, best first; as they are without a decay."""
    if decay is None:
        return list(kept)
    for candidate, memory in kept:
        candidate.fused *= decay(memory)
    return sorted(kept, key=lambda one: (-round(one[0].fused, 9), one[0].key))
