"""Services for tests: started, stopped, and with a source that does as it is told."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from executor import until

from orion_recall.bus.connect import connect
from orion_recall.bus.worker_bus import WorkerBus
from orion_recall.client import RecallClient
from orion_recall.errors import SourceError
from orion_recall.evaluation.trials import changes, fill, index_and_graph, private_settings
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.serving.observe.observer import observing
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import Hit, Memory, MemoryView, SearchRequest, SourceName

# Whether the running code belongs to the service that tests share: what it starts inherits it.
IS_SHARED: ContextVar[bool] = ContextVar("is_shared", default=False)


class OneMemory:
    """A source that finds the same memory every time; while `gate` is closed it waits, and counts who waits."""

    name: SourceName = "vector"

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self.error: SourceError | None = None

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The memory, once the gate is open."""
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        if self.error is not None:
            raise self.error
        text = "The lighthouse keeper feeds the gulls."
        memory = MemoryView(id="m-gulls", text=text, text_hash=text_hash(text))
        return [Hit(key=memory_key(request.scope.tenant, memory.id), score=0.9, read=lambda: memory)]


def opened_with(source: OneMemory, tokens: TokenCounter) -> Opened:
    """What a service needs, with one source and nothing to load."""
    sources = Sources(by_name={"vector": source}, tokens=tokens)
    return Opened(sources=sources, embedder=OnnxEmbedder(), index=None, graph=None)


def quick_settings(redis_url: str, **changes: object) -> Settings:
    """Settings of a patient worker, under a prefix of its own, that notices everything soon."""
    return Settings.read(
        **{
            "redis_url": redis_url,
            "prefix": f"t-{uuid4().hex}:",
            "instance": f"worker-{uuid4().hex[:6]}",
            "refresh_ms": 100,
            "claim_idle_ms": 300,
            "reply_ttl_s": 60,
            "look_every_s": 0,
            "deadline_ms": 60_000,
            "profiles_dir": Path(__file__).parent / "profiles",
            "default_profile": "patient.v1",
        }
        | changes
    )


class NoProgress:
    """Progress that nobody looks at."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


@asynccontextmanager
async def taking_queries(service: Service) -> AsyncGenerator[asyncio.Task[None]]:
    """The service takes queries until the end of the block, if it has not been stopped before."""
    ready = asyncio.Event()
    task = asyncio.create_task(service.serve(ready))
    try:
        await ready.wait()
        yield task
    finally:
        service.stop()
        await task


@asynccontextmanager
async def started(settings: Settings) -> AsyncGenerator[Service]:
    """A whole service that takes queries, until the end of the block."""
    async with Service.start(settings) as service, taking_queries(service):
        yield service


@asynccontextmanager
async def started_with_client(settings: Settings) -> AsyncGenerator[tuple[Service, RecallClient]]:
    """A whole service and a client of it; at the end every decision on its bus is in Postgres, where it has one."""
    async with started(settings) as service:
        async with RecallClient.connect(settings.bus_url or "", prefix=settings.prefix) as client:
            yield service, client
        if settings.dsn is not None:
            await all_persisted(service)


@asynccontextmanager
async def filled_stores(memories: Sequence[Memory]) -> AsyncGenerator[Opened]:
    """Embedded stores in a folder of their own that hold the memories."""
    with tempfile.TemporaryDirectory(prefix="orion-stores-", dir="/tmp") as folder:
        async with open_sources(private_settings(Settings.read(), Path(folder))) as stores:
            await fill(index_and_graph(stores), changes(memories))
            yield stores


@asynccontextmanager
async def serving(settings: Settings, opened: Opened) -> AsyncGenerator[tuple[Service, asyncio.Task[None]]]:
    """A service that takes queries; stopped at the end of the block, if it has not been."""
    async with WorkerBus.open(settings) as bus, observing(settings) as observer:
        service = Service(settings, opened, bus, observer=observer)
        async with taking_queries(service) as task:
            yield service, task


async def caught_up(service: Service, position: int) -> None:
    """Returns when index and graph hold everything up to the position."""

    async def reached() -> bool:
        return all(part.position >= position for part in service.background.projections)

    await until(reached, f"index and graph at position {position}")


async def all_persisted(service: Service) -> None:
    """Returns when every decision on the bus is in Postgres: what a stopped sink held waits for the next."""
    settings = service.settings
    async with connect(settings.bus_url or "") as redis:

        async def persisted() -> bool:
            groups = await cast("Any", redis).xinfo_groups(settings.decision_stream)
            return all(group["pending"] == 0 and group["lag"] in (0, None) for group in groups)

        await until(persisted, "every decision in Postgres")
