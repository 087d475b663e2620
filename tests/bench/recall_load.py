"""Load of recalls over the bus: a number in flight for some seconds, with latency and the CPU of every process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from orion_recall.errors import ClientError
from tests.bench.measure import percentile, thread_cpu_s, tree_cpu_s
from tests.bench.running_worker import RunningWorker

WORKER, BUS, RECORD, CLIENT = "worker", "valkey", "postgres", "client"
# The decision log is written a moment after the answer: its CPU belongs to the recalls.
_SETTLE_S = 0.4


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
        loop_ms=(thread_cpu_s(setup.worker_pid) - loop_before) * 1000 / count,
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
