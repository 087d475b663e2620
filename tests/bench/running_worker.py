"""The setup of one size: engines, a worker in a process of its own with its memories, and the floors.

The memories are stored over the bus. Then the worker is stopped, so that its index and graph can be copied for the
floors, and started again: its memory use is then that of recalls, not of an import.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import SecretStr

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import wait_for_copies
from orion_recall.models.onnx_encoder import Encoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import open_pool
from orion_recall.settings import Settings
from tests.bench.corpus import Corpus, corpus, questions
from tests.bench.engine_floors import EngineFloors
from tests.bench.measure import tree_peak_memory_mib
from tests.bench.recorded_inputs import take_inputs
from tests.bench.stages import Stages

_BATCH = 200
_START_TIMEOUT_S, _STOP_TIMEOUT_S, _STALLED_S = 120.0, 60.0, 180.0
FLOOR_QUESTIONS = 128
# Nothing, or the first line of an error with --json, which has several.
_NOT_READY = (b"", b"{\n")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How the memories went in: seconds until index and graph had them, and the worker's peak memory meanwhile."""

    memories: int
    seconds: float
    worker_peak_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A worker with its memories. `queries` is endless and without repetitions."""

    size: int
    engines: EmbeddedEngines
    worker_pid: int
    client: RecallClient
    queries: Iterator[RecallQueryV1]
    imported: Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup(RunningWorker):
    """One size, ready to be measured with its floors."""

    echo_pid: int
    floors: EngineFloors
    stages: Stages
    request: bytes


@contextlib.asynccontextmanager
async def open_setup(size: int, profile: str, folder: Path, encoder: Encoder, say: Say) -> AsyncGenerator[Setup]:
    """Engines started, memories imported, a copy taken, the worker warm."""
    async with contextlib.AsyncExitStack() as stack:
        data, copy = folder / "data", folder / "copy"
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        now = time.time()
        told = corpus(size, now=now)
        async with worker_process(engines, data, log) as importing:
            imported = await import_all(engines, told, importing.pid, say)
        for part in ("index", "graph"):
            await asyncio.to_thread(shutil.copytree, data / part, copy / part)
        queries = queries_from(told.recent_sessions, profile)
        some = list(itertools.islice(queries, FLOOR_QUESTIONS))
        settings = Settings.read(
            redis_url=SecretStr(engines.redis_url), postgres_dsn=SecretStr(engines.postgres_dsn), data_dir=copy
        )
        inputs = await take_inputs(settings, profile, some, now)
        floors = await stack.enter_async_context(EngineFloors.open(copy, encoder, engines.postgres_dsn, inputs))
        stages = Stages(inputs, await asyncio.to_thread(TokenCounter))
        worker = await stack.enter_async_context(worker_process(engines, data, log))
        echo = await stack.enter_async_context(
            _process("tests.bench.bus_echo", engines.redis_url, str(stages.reply_bytes), log=log)
        )
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        yield Setup(
            size=size,
            engines=engines,
            worker_pid=worker.pid,
            echo_pid=echo.pid,
            client=client,
            queries=queries,
            floors=floors,
            stages=stages,
            request=inputs.asked[0].envelope,
            imported=imported,
        )


@contextlib.asynccontextmanager
async def worker_process(
    engines: EmbeddedEngines,
    data: Path,
    log: IO[bytes],
    *,
    python: str = sys.executable,
    processes: int = 1,
    **settings: str,
) -> AsyncGenerator[Process]:
    """`orion-recall worker` on the engines, taking queries; its log goes to the file.

    With more `processes` it is the parent of that many.
    """
    environment = {
        **settings,
        "ORION_REDIS_URL": engines.redis_url,
        "ORION_POSTGRES_DSN": engines.postgres_dsn,
        "ORION_DATA_DIR": str(data),
    }
    several = ("--processes", str(processes)) if processes > 1 else ()
    line = ("orion_recall", "worker", *several, "--json")
    async with _process(*line, log=log, python=python, **environment) as process:
        yield process


@contextlib.asynccontextmanager
async def _process(
    module: str, *arguments: str, log: IO[bytes], python: str = sys.executable, **environment: str
) -> AsyncGenerator[Process]:
    """A Python module as a process that has said its first line; ended by SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        python,
        "-m",
        module,
        *arguments,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=log,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_TIMEOUT_S):
            if (line := await process.stdout.readline()) in _NOT_READY:
                said = (line + await process.stdout.read()).decode()
                raise RuntimeError(f"{module} ended before it was ready:\n{said}{_tail(Path(log.name))}")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-20:])


async def import_all(engines: EmbeddedEngines, told: Corpus, worker_pid: int, say: Say) -> Imported:
    """Stores the memories over the bus, and waits until index and graph have them."""
    began = time.perf_counter()
    position = 0
    async with RecallClient.connect(engines.redis_url, service="bench-import") as client:
        for start in range(0, len(told.memories), _BATCH):
            receipt = await client.store(told.memories[start : start + _BATCH], timeout_s=300)
            if receipt.error is not None or receipt.rejected or receipt.conflict:
                raise RuntimeError(f"the memories were not stored: {receipt.error or receipt.results[:3]}")
            position = max(position, receipt.position or 0)
    say(f"{len(told.memories):,} memories are stored; index and graph follow")
    pool = await open_pool(engines.postgres_dsn, name="bench", max_size=1)
    try:
        waited = await wait_for_copies(Record(pool), position, stalled_s=_STALLED_S)
    finally:
        await pool.close()
    if not waited.caught_up:
        raise RuntimeError(f"index and graph do not move: {waited}")
    return Imported(
        memories=len(told.memories),
        seconds=time.perf_counter() - began,
        worker_peak_mib=tree_peak_memory_mib(worker_pid),
    )


def queries_from(
    sessions: Sequence[str], profile: str, asked: Iterator[str] | None = None
) -> Iterator[RecallQueryV1]:
    """Queries as an executor would send them, each from one of the sessions that are going on."""
    rng = random.Random(5)
    for question in asked or questions():
        fields: dict[str, Any] = {"fragment": question, "verb": "reflect", "session_id": rng.choice(sessions)}
        yield RecallQueryV1(**fields, profile=profile)
