"""A worker in a process of its own, its memories stored over the bus, and recalls of it under load.

A load keeps a number of recalls in flight for some seconds; it is told with latency and the CPU of every process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError, InvalidMessage
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import wait_for_copies
from orion_recall.postgres.pool import open_pool
from tests.bench.command import say
from tests.bench.corpus import Corpus, questions
from tests.bench.measure import percentile, thread_cpu_s, tree_cpu_s, tree_peak_memory_mib

_BATCH = 200
_START_TIMEOUT_S, _STOP_TIMEOUT_S, _STALLED_S = 120.0, 60.0, 180.0
WORKER, BUS, RECORD, CLIENT = "worker", "valkey", "postgres", "client"
# The decision log is written a moment after the answer: its CPU belongs to the recalls.
_SETTLE_S = 0.4
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
    environment: dict[str, Any] = {
        **settings,
        "ORION_REDIS_URL": engines.redis_url,
        "ORION_POSTGRES_DSN": engines.postgres_dsn,
        "ORION_DATA_DIR": str(data),
    }
    several = ("--processes", str(processes)) if processes > 1 else ()
    line = ("orion_recall", "worker", *several, "--json")
    async with module_process(*line, log=log, python=python, **environment) as process:
        yield process


@contextlib.asynccontextmanager
async def module_process(
    module: str,
    *arguments: str,
    log: IO[bytes],
    python: str = sys.executable,
    stdin: int = DEVNULL,
    **environment: str,
) -> AsyncGenerator[Process]:
    """A Python module as a process that has said its first line; ended by SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        python, "-m", module, *arguments,
        stdin=stdin, stdout=PIPE, stderr=log, env={**os.environ, **environment},
    )  # fmt: skip
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
        waited = await wait_for_copies(Record(pool).copies, position, stalled_s=_STALLED_S)
    finally:
        await pool.close()
    if not waited.caught_up:
        raise RuntimeError(f"index and graph do not move: {waited}")
    return Imported(
        memories=len(told.memories),
        seconds=time.perf_counter() - began,
        worker_peak_mib=tree_peak_memory_mib(worker_pid),
    )


@contextlib.asynccontextmanager
async def filled_worker(
    told: Corpus,
    profile: str,
    data: Path,
    *,
    python: str = sys.executable,
    processes: int = 1,
    then: Callable[[EmbeddedEngines], Awaitable[None]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncGenerator[RunningWorker]:
    """Engines with the memories; then a new worker, so that its memory is that of recalls, not of an import.

    `then` is done in between, while nobody has the copies open.
    """
    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((data.parent / "worker.log").open("ab"))
        async with worker_process(engines, data, log, python=python, **settings or {}) as importing:
            imported = await import_all(engines, told, importing.pid, say)
        if then is not None:
            await then(engines)
        started = worker_process(engines, data, log, python=python, processes=processes, **settings or {})
        worker = await stack.enter_async_context(started)
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        yield RunningWorker(
            size=len(told.memories),
            engines=engines,
            worker_pid=worker.pid,
            client=client,
            queries=queries_from(told.recent_sessions, profile),
            imported=imported,
        )


def queries_from(
    sessions: Sequence[str], profile: str, *, seed: int = 11, options: RecallOptionsV1 | None = None
) -> Iterator[RecallQueryV1]:
    """Queries as an executor would send them, each from one of the sessions that are going on."""
    rng = random.Random(5)
    fields: dict[str, Any] = {} if options is None else {"options": options}
    for question in questions(seed=seed):
        named = {"fragment": question, "verb": "reflect", "session_id": rng.choice(sessions)}
        yield RecallQueryV1(**named, profile=profile, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`cpu_ms` is CPU per recall by process, `loop_ms` the part of the worker's that its event loop used."""

    in_flight: int
    recalls: int
    unanswered: int
    p50_ms: float
    p95_ms: float
    per_s: float
    cpu_ms: Mapping[str, float]
    loop_ms: float


async def recall_cell(setup: RunningWorker, in_flight: int, seconds: float) -> Cell:
    """Recalls with `in_flight` of them under way at any time, after a few that do not count."""
    await _asked_by_many(setup, in_flight, until=0.0)
    await asyncio.sleep(_SETTLE_S)
    before = _cpu_s(setup)
    loop_before, client_before = thread_cpu_s(setup.worker_pid), time.process_time()
    began = time.perf_counter()
    taken_s = await _asked_by_many(setup, in_flight, until=began + seconds)
    passed_s = time.perf_counter() - began
    client_s = time.process_time() - client_before
    await asyncio.sleep(_SETTLE_S)
    used_s = {name: after - before[name] for name, after in _cpu_s(setup).items()} | {CLIENT: client_s}
    loop_s = thread_cpu_s(setup.worker_pid) - loop_before
    return cell_of(taken_s, in_flight=in_flight, passed_s=passed_s, used_s=used_s, loop_s=loop_s)


def cell_of(
    taken_s: Sequence[float | None],
    *,
    in_flight: int,
    passed_s: float,
    used_s: Mapping[str, float],
    loop_s: float = 0.0,
) -> Cell:
    """From the seconds of every question, None for one without an answer, and the CPU of each process."""
    answered = [taken for taken in taken_s if taken is not None]
    count = len(answered)
    if not count:
        raise RuntimeError("no recall was answered: see the worker's log")
    return Cell(
        in_flight=in_flight,
        recalls=count,
        unanswered=len(taken_s) - count,
        p50_ms=percentile(answered, 0.5) * 1000,
        p95_ms=percentile(answered, 0.95) * 1000,
        per_s=count / passed_s,
        cpu_ms={name: used * 1000 / count for name, used in used_s.items()},
        loop_ms=loop_s * 1000 / count,
    )


async def _asked_by_many(setup: RunningWorker, in_flight: int, *, until: float) -> list[float | None]:
    """Seconds of every recall; None of one that got no answer or an error. Each asker asks once at least."""
    taken_s: list[float | None] = []

    async def ask() -> None:
        while True:
            taken_s.append(await _asked_once(setup))
            if time.perf_counter() >= until:
                return

    await asyncio.gather(*(ask() for _ in range(in_flight)))
    return taken_s


async def _asked_once(setup: RunningWorker) -> float | None:
    began = time.perf_counter()
    try:
        answer = await setup.client.recall(next(setup.queries))
    except InvalidMessage:  # another revision has other words in its statistics: answered all the same
        return time.perf_counter() - began
    except ClientError:
        return None
    return time.perf_counter() - began if answer.error is None else None


def _cpu_s(setup: RunningWorker) -> dict[str, float]:
    engines = setup.engines.pids
    return {
        WORKER: tree_cpu_s(setup.worker_pid),
        BUS: tree_cpu_s(engines["valkey"]),
        RECORD: tree_cpu_s(engines["postgres"]),
    }
