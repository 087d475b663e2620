"""Candidates that the index does not hold: what their score needs and no source has told is made from their text.

They come from stores of others, and from a timeline that is ahead of the index. The index gives its own memories a
cosine and late interaction, and both of its arms may find them; such a candidate was only ever in reach of the arms
that its store has. So it gets both from vectors of its text, and its fused score is the mean over the lists that it
is in and the place that its cosine has in the dense list, brought to the scale of the index's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from orion_recall.errors import ModelError
from orion_recall.index.text_forms import dense_form_of_view
from orion_recall.recall.candidates.fuse import Fusing, fused_unindexed
from orion_recall.recall.search.fallback import index_is_away
from orion_recall.sources.text_vectors import Nearness
from orion_recall.values import Candidate, LateReport, MemoryView, Question, SourceReport

MOST_COMPARED = 24
"""Texts of one recall that are compared: those that stand first in the list of a source. About 0.2 s of a slow core
when none of them has been seen before, a millisecond when all have."""
# To compare what is there takes a millisecond; even a recall that is out of time waits this long for it.
_COMPARING_S = 0.1


class ComparesTexts(Protocol):
    """What compares: see `sources.text_vectors.TextVectors`."""

    async def embed(self, texts: Sequence[str]) -> None: ...

    async def nearness(self, question: Question, texts: Sequence[str]) -> Sequence[Nearness | None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unindexed:
    """The keys of the candidates that the index does not hold, and what was made for some of them, by key."""

    keys: frozenset[int] = frozenset()
    cosines: Mapping[int, float] = field(default_factory=dict[int, float])
    late: Mapping[int, float] = field(default_factory=dict[int, float])


NONE_UNINDEXED = Unindexed()
Kept = Sequence[tuple[Candidate, MemoryView]]


def without_indexed(
    pool: Sequence[Candidate],
    limit: int,
    memories: Mapping[int, MemoryView],
    reports: Sequence[SourceReport],
) -> Sequence[Candidate]:
    """The pool up to the limit, and of what came beyond it because it brought its text what the index lacks."""
    if len(pool) <= limit:
        return pool
    beyond = () if index_is_away(reports) else pool[limit:]
    return [*pool[:limit], *(candidate for candidate in beyond if candidate.key not in memories)]


def has_unindexed(kept: Kept, memories: Mapping[int, MemoryView], reports: Sequence[SourceReport]) -> bool:
    """Whether there is anything to compare. While the index is away all is from elsewhere, and on one scale."""
    return any(candidate.key not in memories for candidate, _ in kept) and not index_is_away(reports)


async def compared(
    unindexed: Kept,
    question: Question,
    by: ComparesTexts | None,
    *,
    wants_late: bool,
    timeout_s: float,
) -> Unindexed:
    """What could be made inside the time. Raises nothing: what was not made is not there.

    The cosine is not made for what a dense search has found, and late interaction only where that is wanted.
    """
    keys = frozenset(candidate.key for candidate, _ in unindexed)
    lacking = [one for one in unindexed if wants_late or "vector" not in one[0].scores]
    if by is None or not lacking or timeout_s <= 0:
        return Unindexed(keys=keys)
    first = sorted(lacking, key=lambda one: min(one[0].ranks.values(), default=0))[:MOST_COMPARED]
    texts = [dense_form_of_view(memory) for _, memory in first]
    found: Sequence[Nearness | None] = ()
    with suppress(ModelError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await by.embed(texts)
    with suppress(ModelError, TimeoutError):
        async with asyncio.timeout(_COMPARING_S):
            found = await by.nearness(question, texts)
    near = {candidate.key: one for (candidate, _), one in zip(first, found, strict=False) if one is not None}
    return Unindexed(
        keys=keys,
        cosines={
            candidate.key: near[candidate.key].cosine
            for candidate, _ in first
            if candidate.key in near and "vector" not in candidate.scores
        },
        late={key: one.late for key, one in near.items() if wants_late and one.late is not None},
    )


def fused_anew(
    kept: Kept,
    unindexed: Unindexed,
    reports: Sequence[SourceReport],
    within: Sequence[SourceReport],
    fusing: Fusing,
) -> list[tuple[Candidate, MemoryView]]:
    """The candidates, best first, with the cosines and fused scores of those that the index does not hold."""
    indexed = {candidate.key: candidate.fused for candidate, _ in kept if candidate.key not in unindexed.keys}
    fused = fused_unindexed(unindexed.keys, unindexed.cosines, indexed, reports, within=within, **fusing)
    for candidate, _ in kept:
        if (cosine := unindexed.cosines.get(candidate.key)) is not None:
            candidate.scores["vector"] = cosine
        candidate.fused = fused.get(candidate.key, candidate.fused)
    return sorted(kept, key=lambda one: (-round(one[0].fused, 9), one[0].key))


def with_unindexed(
    closeness: Mapping[int, float], late: LateReport | None, unindexed: Unindexed
) -> tuple[Mapping[int, float], LateReport | None]:
    """Late interaction of the index, and what was compared here beside it."""
    if late is None or not unindexed.late:
        return closeness, late
    together = {**closeness, **unindexed.late}
    return together, replace(late, status="ok", count=len(together))
