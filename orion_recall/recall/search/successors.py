"""The memories that succeed found ones, or precede them, fetched though no search found them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from orion_recall.interfaces import MemoryReader
from orion_recall.profile.sections import Succession
from orion_recall.recall.candidates.fetch import fetch
from orion_recall.recall.ranking.successions import ROUNDS, missing
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView, Question

Pairs = Sequence[tuple[Candidate, MemoryView]]
Memories = Mapping[int, MemoryView]


async def with_successors(
    kept: Pairs,
    memories: Memories,
    question: Question,
    settings: Succession,
    *,
    readers: Sequence[MemoryReader],
    visible: Callable[[Sequence[Candidate], Memories], Pairs],
    timeout_s: float,
) -> tuple[Pairs, Memories]:
    """The candidates and memories with those that succeed them, and precede them where it asks about before.

    `visible` keeps those of the scope.
    """
    if settings.outdated == "keep":
        return kept, memories
    for _ in range(ROUNDS):
        further = missing(kept, question.tense, now=question.now, least=settings.min_confidence)
        if not further:
            break
        found = await fetch(list(further), readers, timeout_s=timeout_s)
        memories = {**memories, **found}
        there = [further[key] for key in further if key in found]
        kept = [*kept, *visible(there, memories)]
    return kept, memories
