"""A worker that ends, as if it were killed, between two steps of serving a message.

Everything is real but the embedder, which would take most of the time. The workers are forks of a server that has
the modules loaded, so that one is there in a fraction of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orion_recall.bus.commit import Committer
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.intake import handlers as changes
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.tombstones import TombstoneStream
from orion_recall.models.embedder import Embedder
from orion_recall.serving import backends as stores
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.samples.source_samples import HashingEmbedder

# What a step is, by the name of what carries it out.
STEPS: dict[str, tuple[Any, str]] = {
    "store": (Record, "store"),
    "change": (changes, "answered_once"),
    "tombstone": (TombstoneStream, "publish"),
    "index": (EdgeIndex, "apply"),
    "graph": (RdfGraph, "apply"),
    "report": (Record, "report_position"),
    "reply": (Committer, "commit"),
}
_server = multiprocessing.get_context("forkserver")  # a process has one: what it loads is in `forked`


@contextmanager
def crashing_worker(settings: Settings, when: str, step: str, armed: Path) -> Generator[Any]:
    """A worker that takes messages. Once the file `armed` is there, it ends "before" or "after" the step."""
    ready = _server.Event()
    process = _server.Process(target=_run, args=(settings, when, step, armed, ready), daemon=True)
    process.start()
    try:
        assert ready.wait(90), "the worker did not start"
        yield process
    finally:
        process.terminate()
        process.join(15)
        process.kill()


def _run(settings: Settings, when: str, step: str, armed: Path, ready: Any) -> None:
    owner, name = STEPS[step]
    # Never undone: the process is for this alone.
    patch = pytest.MonkeyPatch()
    patch.setattr(owner, name, _ending(getattr(owner, name), when, armed))
    patch.setattr(stores, "open_embedder", _hashing)
    asyncio.run(_serve(settings, ready))


def _ending(work: Callable[..., Awaitable[Any]], when: str, armed: Path) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(work)
    async def until_armed(*args: Any, **named: Any) -> Any:
        if when == "before" and armed.exists():
            os._exit(9)
        done = await work(*args, **named)
        if when == "after" and armed.exists():
            os._exit(9)
        return done

    return until_armed


@contextlib.asynccontextmanager
async def _hashing(settings: Settings) -> AsyncGenerator[Embedder]:
    yield HashingEmbedder()


async def _serve(settings: Settings, ready: Any) -> None:
    async with Service.start(settings) as service:
        taking = asyncio.Event()
        serving = asyncio.create_task(service.serve(taking))
        await taking.wait()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.stop)
        ready.set()
        await serving
