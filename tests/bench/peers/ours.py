"""orion-recall as its callers use it: an embedded worker in a process of its own, asked over the bus."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.contracts.recall import RecallOptionsV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.values import Memory
from tests.bench.background import settled
from tests.bench.command import say
from tests.bench.corpus import Corpus
from tests.bench.measure import tree_memory_mib
from tests.bench.peers.asked import About, Figures, K
from tests.bench.running_worker import RunningWorker, import_all, queries_from, recall_cell, worker_process

_MAX_TOKENS = 4096
"""As many as Hindsight gives by default, so that it is `k` that ends an answer everywhere."""


class Ours:
    """A worker with its memories."""

    def __init__(self, worker: RunningWorker, profile: str) -> None:
        self._worker = worker
        self._profile = profile

    @property
    def about(self) -> About:
        return About(
            name="ours",
            shown=f"orion-recall, {self._profile}",
            way="bus",
            versions={"orion-recall": version("orion-recall")},
            fill_s=self._worker.imported.seconds,
        )

    async def cell(self, in_flight: int, seconds: float) -> Figures:
        cell = await recall_cell(self._worker, in_flight, seconds)
        return Figures(
            in_flight=in_flight,
            asked=cell.recalls + cell.unanswered,
            unanswered=cell.unanswered,
            p50_ms=cell.p50_ms,
            p95_ms=cell.p95_ms,
            per_s=cell.per_s,
            cpu_ms=sum(cell.cpu_ms.values()),
        )

    def memory_mib(self) -> float:
        engines = self._worker.engines.pids
        return sum(tree_memory_mib(pid) for pid in (self._worker.worker_pid, *engines.values()))

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        told = [
            {
                "id": one.id,
                "tenant": one.tenant,
                "text": one.text,
                "speaker": one.speaker,
                "session_id": one.session_id,
                "occurred_at": one.occurred_at,
            }
            for one in memories
        ]
        corpus = Corpus(memories=told, recent_sessions=[])
        await import_all(self._worker.engines, corpus, self._worker.worker_pid, lambda _: None)

    async def ranked(self, query: JudgedQuery) -> list[str]:
        as_of = None if query.asked_at is None else datetime.fromtimestamp(query.asked_at, UTC)
        options = RecallOptionsV1(tenant=query.conversation, k=K, max_tokens=_MAX_TOKENS, as_of=as_of)
        answer = await self._worker.client.recall(
            RecallQueryV1(fragment=query.text, profile=self._profile, options=options)
        )
        if answer.error is not None:
            raise RuntimeError(f"no answer: {answer.error}")
        return [item.id for item in answer.bundle.items]


@contextlib.asynccontextmanager
async def open_ours(told: Corpus, profile: str, folder: Path) -> AsyncGenerator[Ours]:
    """Engines and memories; then a new worker, so that its memory is that of recalls, not of an import."""
    async with contextlib.AsyncExitStack() as stack:
        data = folder / "data"
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        async with worker_process(engines, data, log, ORION_TENANTS="*") as importing:
            imported = await import_all(engines, told, importing.pid, say)
        worker = await stack.enter_async_context(worker_process(engines, data, log, ORION_TENANTS="*"))
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        running = RunningWorker(
            size=len(told.memories),
            engines=engines,
            worker_pid=worker.pid,
            client=client,
            queries=_ten_wanted(queries_from(told.recent_sessions, profile)),
            imported=imported,
        )
        await settled([running])
        yield Ours(running, profile)


def _ten_wanted(queries: Iterator[RecallQueryV1]) -> Iterator[RecallQueryV1]:
    options = RecallOptionsV1(k=K, max_tokens=_MAX_TOKENS)
    return (query.model_copy(update={"options": options}) for query in queries)
