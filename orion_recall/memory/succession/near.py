"""The older memories that a new one may succeed, searched in the index by meaning and by words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from orion_recall.index.text_forms import dense_form, event_time
from orion_recall.interfaces import MemoryIndex
from orion_recall.memory.succession.find import Found, Near, successions_of
from orion_recall.memory.succession.reading import READ_CHARS, may_succeed, read, read_view
from orion_recall.memory.succession.span import Reading
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory, MemoryView, Scope

BY_MEANING, BY_WORDS = 12, 8
"""Candidates of the two searches: twenty at most."""


class _NearView(NamedTuple):
    memory: MemoryView
    cosine: float | None
    word_rank: int | None


def _judged(new: Reading, near: Sequence[_NearView]) -> list[Found]:
    return successions_of(new, [Near(_reading(one.memory, new.tenant), one.cosine, one.word_rank) for one in near])


@lru_cache(maxsize=2048)
def _reading(memory: MemoryView, tenant: str) -> Reading:
    """The reading of an older memory: what is said in one talk has the same neighbours again and again."""
    return read_view(memory, tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNeighbours:
    """Finds what a memory succeeds among the memories that the index holds."""

    index: MemoryIndex
    embedder: Embedder
    sparse: SparseEncoder

    async def successions(self, memory: Memory) -> list[Found]:
        """The older memories that it succeeds, best first. A text that cannot say anything new costs no search.

        SourceError while the index is away, ModelError when the text cannot be embedded.
        """
        if event_time(memory) is None:
            return []
        new = await asyncio.to_thread(read, memory)
        if not may_succeed(new):
            return []
        found = await self._near(memory, new)
        # Reading twenty texts takes two or three milliseconds: not on the loop, where recalls wait.
        return await asyncio.to_thread(_judged, new, found)

    async def _near(self, memory: Memory, new: Reading) -> Sequence[_NearView]:
        text = memory.text[:READ_CHARS]
        scope = Scope(tenant=memory.tenant, until=new.at)
        own = memory_key(memory.tenant, memory.id)
        vector = await self._vector_of(memory, own)
        # Whoever leaves or takes over is looked for by name: what else is told of it has other words.
        leaving = sorted(
            name
            for name in new.whole.people.leaving
            if name != new.first_name or "handover" in new.whole.change.cues
        )
        words = " ".join(leaving) if leaving else f"{memory.speaker} {text}" if memory.speaker else text
        dense, (sparse, *_) = await asyncio.gather(
            self.index.search_dense(vector, scope, BY_MEANING, -1.0),
            self.index.search_sparse(self.sparse.encode_query(words), scope, BY_MEANING + BY_WORDS),
        )
        cosines = {key: cosine for key, cosine in dense if key != own}
        word_ranks = {key: rank for rank, (key, _) in enumerate(sparse, start=1)}
        by_words = [key for key in word_ranks if key not in cosines and key != own][:BY_WORDS]
        views = await self.index.fetch([*cosines, *by_words])
        return [
            _NearView(views[key], cosines.get(key), word_ranks.get(key))
            for key in (*cosines, *by_words)
            # What one user says changes nothing of what another one said, and is not for him to see.
            if key in views and views[key].user_id in (None, memory.user_id)
        ]

    async def _vector_of(self, memory: Memory, key: int) -> Sequence[float]:
        """The vector that the index has of it: to embed the text again would cost more than all the rest."""
        if (held := (await self.index.vectors([key])).get(key)) is not None:
            return held
        (vector,) = await self.embedder.embed_documents([dense_form(memory)])
        return vector.tolist()


async def successions_among(memories: Iterable[Memory], neighbours: IndexNeighbours) -> list[tuple[str, Found]]:
    """What each of the memories succeeds, with its tenant; the index holds all of them."""
    found: list[tuple[str, Found]] = []
    for memory in memories:
        found += [(memory.tenant, one) for one in await neighbours.successions(memory)]
    return found
