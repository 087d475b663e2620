"""Unindexed candidates: cosine and late interaction computed from their text.

They come from external stores, and from a timeline that is ahead of the index. Both sources of the index may find
an indexed memory, and it has a cosine and late interaction; an unindexed one is only in reach of its own store. So
it gets both from vectors of its text, and its fused score is the mean over the lists that have it and the place of
its cosine in the dense list, brought to the scale of indexed memories. Where the question is about a time, the
times that its text tells are read, as the worker reads those of a memory that it stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Protocol

from orion_recall.index.texts import dense_form_of_view
from orion_recall.memory.extraction.light import find_times
from orion_recall.recall.candidates.fuse import Fusing, by_fused, fused_unindexed
from orion_recall.recall.search.all_sources import or_else
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.intervals import told_ranges
from orion_recall.sources.text_vectors import Nearness
from orion_recall.values import MemoryView, Question, SourceReport, ToldTime

MOST_COMPARED = 24
"""Texts of one recall that are compared: the first of a source's list. About 0.2 s of a slow core when none of them
is cached, a millisecond when all are."""
MOST_READ = 24
"""Texts of one recall that are read for told times: about a millisecond each when they are not cached."""
_READ_CHARS = 1_000
# To compare cached texts takes a millisecond; even a recall that is out of time waits this long for it.
_COMPARING_S = 0.1


class ComparesTexts(Protocol):
    """Compares texts with a question: see `sources.text_vectors.TextVectors`."""

    async def embed(self, texts: Sequence[str]) -> None: ...

    async def nearness(self, question: Question, texts: Sequence[str]) -> Sequence[Nearness | None]: ...


Kept = Sequence[tuple[Candidate, MemoryView]]


def limited(
    pool: Sequence[Candidate], limit: int, memories: Mapping[int, MemoryView], *, is_away: bool
) -> Sequence[Candidate]:
    """The pool up to the limit; beyond it what is to be kept, and unindexed candidates, which bring their text."""
    if len(pool) <= limit:
        return pool
    beyond = (one for one in pool[limit:] if one.is_kept or (not is_away and one.key not in memories))
    return [*pool[:limit], *beyond]


async def compared(
    unindexed: Kept, question: Question, by: ComparesTexts | None, *, wants_late: bool, timeout_s: float
) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Cosines and late interaction, by key, of the first unindexed candidates, as far as time allows.

    A candidate of a dense search keeps its cosine; late interaction is made only with `wants_late`. Raises nothing.
    """
    lacking = [one for one in unindexed if wants_late or "vector" not in one[0].scores]
    if by is None or not lacking or timeout_s <= 0:
        return {}, {}
    first = sorted(lacking, key=lambda one: min(one[0].ranks.values(), default=0))[:MOST_COMPARED]
    texts = [dense_form_of_view(memory) for _, memory in first]
    await or_else(by.embed(texts), None, timeout_s)
    found = await or_else(by.nearness(question, texts), (), _COMPARING_S)
    cosines: dict[int, float] = {}
    late: dict[int, float] = {}
    for (candidate, _), one in zip(first, found, strict=False):
        if one is not None and "vector" not in candidate.scores:
            cosines[candidate.key] = one.cosine
        if one is not None and wants_late and one.late_interaction is not None:
            late[candidate.key] = one.late_interaction
    return cosines, late


def fused_with_unindexed(
    kept: Kept,
    keys: Set[int],
    cosines: Mapping[int, float],
    reports: Sequence[SourceReport],
    within: Sequence[SourceReport],
    fusing: Fusing,
) -> list[tuple[Candidate, MemoryView]]:
    """The candidates, best first, with cosines and fused scores of the unindexed ones, which have these keys."""
    indexed = {candidate.key: candidate.fused for candidate, _ in kept if candidate.key not in keys}
    fused = fused_unindexed(keys, cosines, indexed, reports, fusing, within=within)
    for candidate, _ in kept:
        if (cosine := cosines.get(candidate.key)) is not None:
            candidate.scores["vector"] = cosine
        candidate.fused = fused.get(candidate.key, candidate.fused)
    return by_fused(kept)


def with_told_times(
    kept: Kept, memories: Mapping[int, MemoryView], question: Question
) -> tuple[list[tuple[Candidate, MemoryView]], frozenset[int]]:
    """The candidates, unindexed ones (not in `memories`) with the times that they tell; the keys of unread ones.

    Nothing is read where the question is about no time that texts tell.
    """
    if not told_ranges(question.time, question.now):
        return list(kept), frozenset()
    lacking = [candidate.key for candidate, memory in kept if candidate.key not in memories and not memory.told]
    read = frozenset(lacking[:MOST_READ])
    return [
        (candidate, memory._replace(told=_told(memory.text[:_READ_CHARS], memory.ts)))
        if candidate.key in read
        else (candidate, memory)
        for candidate, memory in kept
    ], frozenset(lacking) - read


@lru_cache(maxsize=2_048)
def _told(text: str, ts: float | None) -> tuple[ToldTime, ...]:
    return tuple(ToldTime(one.since, one.until, one.weekly) for one in find_times(text, ts))
