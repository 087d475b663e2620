"""Baselines that recall must beat: plain searches over the same memories, without any rule of the recall.

Each asks the sources of the index directly for the raw text of the question: no names taken out, no reading of
times, no parts, no gate, no filter but tenant and what is deleted. The bundle is the first twelve.

vector      cosine of the question and "speaker: text", the index's own dense vectors
rrf         sum of 1 / (60 + rank) over the vector list and the keyword list (own words, BM25), equal scores by id
bm25        that keyword list alone
bm25_decay  it times exp(-lambda * age), lambda 0.01 an hour, never below 0.05
like        the number of the question's words that occur in the text, also inside words: SQL's LIKE '%word%'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orion_recall.errors import SourceError
from orion_recall.evaluation.dataset import Contents, JudgedQuery, RunLine
from orion_recall.interfaces import MemoryIndex
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import Opened
from orion_recall.text.normal import content_words, memory_key
from orion_recall.values import Scope

BaselineName = Literal["vector", "rrf", "bm25", "bm25_decay", "like"]

RRF_K = 60
DECAY_LAMBDA, DECAY_FLOOR = 0.01, 0.05
DEPTH, BUNDLE = 100, 12
Scored = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Baselines:
    """The baselines over open stores. `now` is asked for `bm25_decay`; SourceError when there is no index."""

    index: MemoryIndex
    embedder: Embedder
    sparse: SparseEncoder
    contents: Contents

    @classmethod
    def of(cls, opened: Opened, contents: Contents) -> Baselines:
        if opened.index is None:
            raise SourceError("; ".join(opened.broken.values()))
        return cls(opened.index, opened.embedder, SparseEncoder(), contents)

    async def line(self, name: BaselineName, query: JudgedQuery) -> RunLine:
        """The result of one query: the ranking, and its beginning as the bundle."""
        found = await self.ranked(name, query)
        read = await self.index.fetch([key for key, _ in found])
        ids = tuple(read[key].id for key, _ in found if key in read)
        return RunLine(ranked=ids, selected=ids[:BUNDLE])

    async def ranked(self, name: BaselineName, query: JudgedQuery) -> Scored:
        """Keys and scores, best first."""
        scope = Scope(
            tenant=query.conversation,
            session_id=query.session_id if query.scope == "session" else None,
            user_id=query.user_id if query.scope == "user" else None,
        )
        if name == "vector":
            return await self._vector(query.text, scope)
        if name == "like":
            return await self._like(query.text, query.conversation)
        keywords = await self._keywords(query.text, scope)
        if name == "rrf":
            return fused([await self._vector(query.text, scope), keywords])[:DEPTH]
        return keywords if name == "bm25" else await self._decayed(keywords, query)

    async def _vector(self, text: str, scope: Scope) -> Scored:
        vector = await self.embedder.embed_query(text)
        # The least cosine there is: what is unlike the question is ranked, too.
        return await self.index.search_dense(vector.tolist(), scope, DEPTH, -1.0)

    async def _keywords(self, text: str, scope: Scope) -> Scored:
        own, _ = await self.index.search_sparse(self.sparse.encode_query(text), scope, DEPTH)
        return own

    async def _like(self, text: str, tenant: str) -> Scored:
        wanted = frozenset(content_words(text))
        keys = [memory_key(tenant, name) for name in self.contents.ids.get(tenant, ())]
        read = await self.index.fetch(keys)
        texts = {key: read[key].text.casefold() for key in keys if key in read}
        counts = [(key, float(sum(word in text for word in wanted))) for key, text in texts.items()]
        return sorted((one for one in counts if one[1]), key=lambda one: -one[1])[:DEPTH]

    async def _decayed(self, found: Scored, query: JudgedQuery) -> Scored:
        now = query.asked_at if query.asked_at is not None else self.contents.newest.get(query.conversation)
        read = await self.index.fetch([key for key, _ in found])
        decayed = [(key, score * decay(read[key].ts, now)) for key, score in found if key in read]
        return sorted(decayed, key=lambda one: -one[1])


def fused(lists: Sequence[Sequence[tuple[int, float]]]) -> Scored:
    """Reciprocal rank fusion (Cormack and others 2009): sum of 1 / (60 + rank), ranks from 1; equal sums by key."""
    sums: dict[int, float] = {}
    for found in lists:
        for rank, (key, _) in enumerate(found, 1):
            sums[key] = sums.get(key, 0.0) + 1 / (RRF_K + rank)
    return sorted(sums.items(), key=lambda one: (-one[1], one[0]))


def decay(at: float | None, now: float | None) -> float:
    """exp(-lambda * age in hours), never below 0.05; 0.5 for what has no date."""
    if at is None or now is None:
        return 0.5
    return max(DECAY_FLOOR, math.exp(-DECAY_LAMBDA * max(0.0, now - at) / 3600))
