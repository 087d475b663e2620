"""Candidates that the index does not hold: what their score needs and no source has told is made from their text.

They come from stores of others, and from a timeline that is ahead of the index. The index gives its own memories a
cosine and late interaction, and both of its arms may find them; such a candidate was only ever in reach of the arms
that its store has. So it gets both from vectors of its text, and its fused score is the mean over the lists that it
is in and the place that its cosine has in the dense list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from orion_recall.errors import ModelError
from orion_recall.recall.stand_in import index_is_away
from orion_recall.sources.forms import dense_form_of_view
from orion_recall.sources.text_vectors import Nearness
from orion_recall.values import Candidate, MemoryView, Question, SourceReport

MOST_COMPARED = 24
"""Texts of one recall that are compared: those that stand first in the list of a source. About 0.2 s of a slow core
when none of them has been seen before, a millisecond when all have."""
# To compare what is there takes a millisecond; even a recall that is out of time waits this long for it.
_COMPARING_S = 0.1


class ComparesTexts(Protocol):
    """What compares: see `sources.text_vectors.TextVectors`."""

    async def embed(self, texts: Sequence[str]) -> None: ...

    async def nearness(self, question: Question, texts: Sequence[str]) -> Sequence[Nearness | None]: ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unindexed:
    """The keys of the candidates that the index does not hold, and what was made for some of them, by key."""

    keys: frozenset[int] = frozenset()
    cosines: Mapping[int, float] = field(default_factory=dict[int, float])
    late: Mapping[int, float] = field(default_factory=dict[int, float])


NONE_UNINDEXED = Unindexed()


async def compared(
    unindexed: Sequence[tuple[Candidate, MemoryView]],
    question: Question,
    by: ComparesTexts | None,
    *,
    timeout_s: float,
) -> Unindexed:
    """What could be made inside the time. Raises nothing: what was not made is not there.

    The cosine is not made for what a dense search has found.
    """
    keys = frozenset(candidate.key for candidate, _ in unindexed)
    if by is None or not unindexed or timeout_s <= 0:
        return Unindexed(keys=keys)
    first = sorted(unindexed, key=lambda one: min(one[0].ranks.values(), default=0))[:MOST_COMPARED]
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
        late={key: one.late for key, one in near.items() if one.late is not None},
    )
