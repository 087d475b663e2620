"""Recalls on real stores in this process, through `recall()`, with the CPU of each."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from orion_recall.contracts import RecallQueryV1
from orion_recall.models.embedder import Embedder
from orion_recall.models.onnx_encoder import Encoder, prepared
from orion_recall.models.token_space import TokenVectors
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled, Sources
from orion_recall.serving.backends import open_sources
from tests.bench import corpus_words as lists
from tests.bench.corpus import questions
from tests.bench.costs import Clocked, Compared
from tests.bench.cpu_clock import Clock, clocked_recall
from tests.bench.fill_child import NOW
from tests.bench.filled_stores import FilledStores
from tests.bench.measure import tree_cpu_s
from tests.bench.running_worker import queries_from
from tests.bench.uncached import Recalls, UncachedEmbedder, clocked_sources, uncached_sources

_TIMEOUT_S = 120.0
_WARM_UP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedRun:
    """All questions under one profile; `postgres_ms` is Postgres's own CPU for one, which no stage includes."""

    asked: Sequence[Clocked]
    postgres_ms: float


class Recaller:
    """Recalls one question at a time, without caches from earlier recalls."""

    def __init__(
        self, filled: FilledStores, sources: Sources, encoder: Encoder, recalls: Recalls, clock: Clock
    ) -> None:
        self._filled, self._encoder, self._recalls, self._clock = filled, encoder, recalls, clock
        self._plain, self._clocked = sources, clocked_sources(sources, clock)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, filled: FilledStores, encoder: Encoder) -> AsyncGenerator[Recaller]:
        """On the filled stores, warm."""
        recalls, clock = Recalls(), Clock()

        def around(embedder: Embedder) -> Embedder:
            assert isinstance(embedder, TokenVectors)
            return UncachedEmbedder(embedder, recalls, clock)

        async with open_sources(filled.settings, around=around) as opened:
            assert not opened.broken, opened.broken
            yield cls(filled, uncached_sources(opened, recalls), encoder, recalls, clock)

    def queries(self, count: int, *, with_chains: bool = False) -> list[RecallQueryV1]:
        """Questions from the recent sessions, always the same; with chains half have a possessive one."""
        kinds = (lists.QUESTIONS_WITH_CHAINS, (*lists.QUESTIONS_WITH_NAMES, *lists.QUESTIONS_WITHOUT_NAMES))
        asked: Iterator[str] | None = questions(forms=kinds) if with_chains else None
        return list(islice(queries_from(self._filled.recent_sessions, "reflect.v1", asked), count))

    async def clocked(self, queries: Sequence[RecallQueryV1], profile: Profile) -> ClockedRun:
        """Recalls each question once without a clock, and then with it."""
        await self._warm_up(queries, profile)
        asked: list[Clocked] = []
        before = tree_cpu_s(self._filled.postgres_pid)
        for query in queries:
            embedding_ms = self._embedding_ms(await self._recalled(query, profile, self._plain))
            with clocked_recall(self._clock), self._clock.measuring() as stages_ms:
                await self._recalled(query, profile, self._clocked)
            asked.append(Clocked(embedding_ms=embedding_ms, stages_ms=stages_ms))
        used = tree_cpu_s(self._filled.postgres_pid) - before
        return ClockedRun(asked=asked, postgres_ms=used * 1000 / (2 * len(queries)))

    async def compared(
        self, queries: Sequence[RecallQueryV1], profile: Profile, without: Profile
    ) -> Sequence[Compared]:
        """Recalls each question under both profiles in alternating order, after a warm-up of both."""
        await self._warm_up(queries, profile)
        compared: list[Compared] = []
        for place, query in enumerate(queries):
            both = (profile, without) if place % 2 else (without, profile)
            recalled = [await self._recalled(query, one, self._plain) for one in both]
            embedding_ms = self._embedding_ms(recalled[0])
            spent = [await self._spent_ms(query, one) for one in both]
            with_ms, without_ms = spent if place % 2 else spent[::-1]
            compared.append(Compared(embedding_ms=embedding_ms, with_ms=with_ms, without_ms=without_ms))
        return compared

    async def _warm_up(self, queries: Sequence[RecallQueryV1], profile: Profile) -> None:
        for query in queries[:_WARM_UP]:
            self._embedding_ms(await self._recalled(query, profile, self._plain))
        # The objects made so far are not measured: the garbage collector need not scan them again.
        gc.collect()
        gc.freeze()

    def _embedding_ms(self, recalled: Recalled) -> float:
        """CPU of embedding the question directly."""
        assert recalled.understood is not None
        text = prepared(recalled.understood.question.dense_text)
        began = time.process_time()
        self._encoder.encode([text])
        return (time.process_time() - began) * 1000

    async def _spent_ms(self, query: RecallQueryV1, profile: Profile) -> float:
        began = time.process_time()
        await self._recalled(query, profile, self._plain)
        return (time.process_time() - began) * 1000

    async def _recalled(self, query: RecallQueryV1, profile: Profile, sources: Sources) -> Recalled:
        self._recalls.begin()
        return await recall(query, profile, sources, now=NOW, timeout_s=_TIMEOUT_S)
