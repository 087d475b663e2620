"""Latency of each system over stores of a given size: wall-clock milliseconds, one call after the other."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.systems.registry import Corpus, System
from orion_recall.evaluation.systems.turns import NOW, TENANT
from orion_recall.evaluation.trials import Asking
from orion_recall.interfaces import Projection, Source
from orion_recall.profile import Profile
from orion_recall.recall.candidates.decay import Decay
from orion_recall.text.normal import text_hash
from orion_recall.values import Change, Question, Scope, SearchRequest

_SHOWN = 10
_WARM_UP = 3
_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Percentiles of `calls` calls, in milliseconds."""

    p50: float
    p95: float
    p99: float
    calls: int

    @classmethod
    def of(cls, took: Sequence[float]) -> Self:
        """The percentiles: the smallest value that so many percent are not above."""
        ordered = sorted(took)

        def at(share: float) -> float:
            return round(ordered[max(0, math.ceil(len(ordered) * share) - 1)], 3)

        return cls(p50=at(0.5), p95=at(0.95), p99=at(0.99), calls=len(ordered))


async def search_latency(system: System, source: Source, corpus: Corpus, queries: Sequence[JudgedQuery]) -> Latency:
    """A system's own search: the question's terms or vector, 100 hits, the decay, and ten memories read."""
    decay = Decay.of(system.profile, NOW)

    async def answer(query: JudgedQuery) -> None:
        hits = await source.search(_request(query))
        if decay is None:
            await corpus.index.fetch([hit.key for hit in hits[:_SHOWN]])
            return
        memories = await corpus.index.fetch([hit.key for hit in hits])
        decayed = {hit.key: hit.score * decay.factor(memories[hit.key]) for hit in hits if hit.key in memories}
        sorted(decayed, key=lambda key: -decayed[key])

    for query in queries[:_WARM_UP]:
        await answer(query)
    took: list[float] = []
    for query in queries[_WARM_UP:]:
        began = time.perf_counter()
        await answer(query)
        took.append((time.perf_counter() - began) * 1000)
    return Latency.of(took)


async def recall_latency(profile: Profile, asking: Asking, queries: Sequence[JudgedQuery]) -> Latency:
    """Whole recalls under a profile, from the question to the bundle, without bus and Postgres."""
    for query in queries[:_WARM_UP]:
        await asking.recalled(query, profile)
    took: list[float] = []
    for query in queries[_WARM_UP:]:
        began = time.perf_counter()
        await asking.recalled(query, profile)
        took.append((time.perf_counter() - began) * 1000)
    return Latency.of(took)


async def write_latency(projections: Sequence[Projection], steps: Sequence[Change]) -> Latency:
    """New turns stored one at a time: embedded, and written to index and graph, without bus and Postgres."""
    took: list[float] = []
    for step in steps:
        began = time.perf_counter()
        await asyncio.gather(*(projection.apply([step]) for projection in projections))
        took.append((time.perf_counter() - began) * 1000)
    return Latency.of(took)


def _request(query: JudgedQuery) -> SearchRequest:
    question = Question(
        text=query.text,
        dense_text=query.text,
        keyword_text=query.text,
        terms=frozenset(),
        now=NOW,
        text_hash=text_hash(query.text),
    )
    return SearchRequest(question=question, scope=Scope(tenant=TENANT), limit=_DEPTH)
