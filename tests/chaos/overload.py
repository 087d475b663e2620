"""Four times what a worker can answer, with a second tenant beside the flood and stores meanwhile.

One worker with a core of its own; the caller shares the others with the bus and Postgres. Its capacity is what it
answers in a closed loop, measured before and after every phase, since other programs share the machine. Then
queries come at four times that rate, whether earlier ones were answered or not; in the last phase another tenant
asks for 15% of it. Goodput is the share of the capacity that was answered `ok` or `empty` before the caller's ttl
was over, by the caller's clock. `of_cpu` is the same in answers for a second of the worker's CPU: what overload
costs where others take the processor. After a phase one query follows the other until an answer takes no longer
than the slowest of the capacity before: `normal_s` after the end of the load. Promises of time hold only on a
machine that has nothing else to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.contracts import QUERY_KIND, REPLY_KIND
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError
from orion_recall.tasks import cancel
from tests.bench.command import engines_folder, say
from tests.bench.corpus import corpus, questions
from tests.bench.measure import percentile, process_tree, tree_cpu_s, tree_memory_mib
from tests.bench.running_worker import worker_process
from tests.chaos.trial import Promise, Trial, at_least, at_most

_TTL_MS, _GROWN_MIB, _TIMES = 2000, 64, 4
_FLOOD, _QUIET, _STORER = "flood", "quiet", "storer"
_QUIET_SHARE, _STORES_PER_S = 0.15, 1.0
_IN_FLIGHT, _CAPACITY_S, _SETTLE_S, _LONGEST_S = 16, 5.0, 3.0, 60.0
_GOOD = ("ok", "empty")


@dataclass(slots=True, kw_only=True)
class Asked:
    """The queries of one tenant in one phase: how many, their outcomes, and milliseconds of the good answers.

    `late` are answers after the ttl; what has no answer at all is `unanswered`.
    """

    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    ms: list[float] = field(default_factory=list[float])

    @property
    def good(self) -> int:
        """Good answers in time."""
        return len(self.ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase: the capacity, and what became of the load. `receipt_ms` are those of stores.

    `memory_mib` is what was resident of the worker and the process of its index before, and at the most while it
    lasted.
    """

    name: str
    capacity: float
    goodput: float
    of_cpu: float
    p99_ms: float
    outcomes: dict[str, int]
    quiet_share: float | None
    quiet_outcomes: dict[str, int]
    receipt_ms: list[float]
    memory_mib: tuple[float, float]
    normal_s: float
    load: float


class Caller:
    """Sends queries without waiting for the answers, which are counted as they come."""

    def __init__(self, redis: Redis, blocking: Redis) -> None:
        self._redis, self._blocking = redis, blocking
        self._replies = f"{REPLY_KIND}:{uuid4().hex}"
        self._questions = questions(seed=23)
        self._open: dict[str, tuple[float, Asked]] = {}

    async def flood(self, asked: Asked, tenant: str, per_s: float, seconds: float) -> None:
        """Send so many queries a second."""
        began = time.perf_counter()
        while (now := time.perf_counter() - began) < seconds:
            due = int(now * per_s) - asked.sent
            if due > 0:
                pipeline = self._redis.pipeline(transaction=False)
                for _ in range(due):
                    pipeline.xadd(QUERY_KIND, {"envelope": self._envelope(asked, tenant)})
                await pipeline.execute()
            await asyncio.sleep(0.01)

    async def settle(self) -> None:
        """Wait for what is still to be answered, a while beyond its ttl; the rest is unanswered."""
        until = time.perf_counter() + _TTL_MS / 1000 + _SETTLE_S
        while self._open and time.perf_counter() < until:
            await asyncio.sleep(0.05)
        for _, asked in self._open.values():
            asked.outcomes["unanswered"] += 1
        self._open.clear()

    async def read(self) -> None:
        """Count answers until cancelled."""
        last = "0"
        while True:
            found = cast("list[Any]", await self._blocking.xread({self._replies: last}, count=500, block=500))
            now = time.perf_counter()
            for _, rows in found or []:
                for entry_id, fields in rows:
                    last = entry_id.decode()
                    self._count(json.loads(fields[b"envelope"]), now)

    def _count(self, envelope: dict[str, Any], now: float) -> None:
        sent_at, asked = self._open.pop(envelope["correlation_id"], (0.0, None))
        if asked is None:
            return
        payload = envelope["payload"]
        error = payload.get("error")
        outcome = error["type"] if error else payload["bundle"]["stats"]["outcome"]
        if outcome in _GOOD and (now - sent_at) * 1000 > _TTL_MS:
            outcome = "late"
        if outcome in _GOOD:
            asked.ms.append((now - sent_at) * 1000)
        asked.outcomes[outcome] += 1

    def _envelope(self, asked: Asked, tenant: str) -> bytes:
        name = str(uuid4())
        asked.sent += 1
        self._open[name] = (time.perf_counter(), asked)
        payload = {"fragment": next(self._questions), "options": {"tenant": tenant}}
        whole = {
            "correlation_id": name,
            "kind": QUERY_KIND,
            "reply_to": self._replies,
            "ttl_ms": _TTL_MS,
            "payload": payload,
        }
        return json.dumps(whole).encode()


class Overload:
    """The phases, on one worker."""

    def __init__(self, client: RecallClient, caller: Caller, seconds: float, worker_pid: int) -> None:
        self._client, self._caller, self._seconds, self._pid = client, caller, seconds, worker_pid
        self._numbers: Iterator[str] = questions(seed=31)
        self._slowest_s = 0.0

    async def capacity(self) -> tuple[float, float]:
        """Answers a second in a closed loop, and for a second of the worker's CPU."""
        cpu_s = tree_cpu_s(self._pid)
        until = time.perf_counter() + _CAPACITY_S
        began, answered = time.perf_counter(), 0
        self._slowest_s = 0.0

        async def ask() -> None:
            nonlocal answered
            while time.perf_counter() < until:
                is_good = await self._is_good(noted=True)
                answered += is_good  # in a step of its own: others count meanwhile

        await asyncio.gather(*(ask() for _ in range(_IN_FLIGHT)))
        return answered / (time.perf_counter() - began), answered / (tree_cpu_s(self._pid) - cpu_s)

    async def _is_good(self, *, noted: bool = False) -> bool:
        """Whether a query gets a good answer that takes no longer than usual; `noted`: what this takes is usual."""
        began = time.perf_counter()
        try:
            reply = await self._client.recall(next(self._numbers), options={"tenant": _FLOOD})
        except ClientError:
            return False
        took_s = time.perf_counter() - began
        if noted:
            self._slowest_s = max(self._slowest_s, took_s)
        is_good = reply.error is None and reply.bundle.stats.outcome in _GOOD
        return is_good and took_s <= self._slowest_s

    async def _normal(self) -> float:
        """Seconds until a query is answered as before."""
        began = time.perf_counter()
        while time.perf_counter() - began < _LONGEST_S:
            if await self._is_good():
                break
        return time.perf_counter() - began

    async def _watch_memory(self, found: list[float]) -> None:
        """What is resident of the worker and its index's process, every second, until cancelled."""
        while True:
            found.append(tree_memory_mib(self._pid))
            await asyncio.sleep(1)

    async def phase(self, name: str, *, with_quiet: bool = False) -> Phase:
        """Measure the capacity, then four times as much."""
        before, before_cpu = await self.capacity()
        say(f"{name}: the capacity is {before:.1f}/s")
        asked, quiet, receipts = Asked(), Asked(), list[float]()
        flows = [self._caller.flood(asked, _FLOOD, _TIMES * before, self._seconds), self._stores(receipts)]
        if with_quiet:
            flows.append(self._caller.flood(quiet, _QUIET, max(2.0, _QUIET_SHARE * before), self._seconds))
        cpu_s, memory_mib = tree_cpu_s(self._pid), list[float]()
        watching = asyncio.create_task(self._watch_memory(memory_mib))
        await asyncio.gather(*flows)
        _, normal_s = await asyncio.gather(self._caller.settle(), self._normal())
        await cancel(watching)
        cpu_s = tree_cpu_s(self._pid) - cpu_s
        after, after_cpu = await self.capacity()
        capacity, good = (before + after) / 2, asked.good + quiet.good
        return Phase(
            name=name,
            capacity=capacity,
            goodput=good / self._seconds / capacity,
            of_cpu=good / cpu_s / ((before_cpu + after_cpu) / 2),
            p99_ms=percentile(asked.ms, 0.99) if asked.ms else 0.0,
            outcomes=dict(asked.outcomes),
            quiet_share=quiet.good / quiet.sent if with_quiet else None,
            quiet_outcomes=dict(quiet.outcomes),
            receipt_ms=receipts,
            memory_mib=(memory_mib[0], max(memory_mib)),
            normal_s=normal_s,
            load=os.getloadavg()[0],
        )

    async def _stores(self, receipts: list[float]) -> None:
        until = time.perf_counter() + self._seconds
        while (began := time.perf_counter()) < until:
            name = uuid4().hex[:8]
            memory = {"id": name, "tenant": _STORER, "text": f"Crate {name} of the lighthouse was painted green."}
            with contextlib.suppress(ClientError):
                receipt = await self._client.store([memory], timeout_s=60)
                assert receipt.error is None, receipt.error
                receipts.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(max(0.0, began + 1 / _STORES_PER_S - time.perf_counter()))


async def run(*, seconds: float, memories: int) -> Trial:
    """The trial: two phases of so many seconds, after one that warms up: caches fill, and memory with them."""
    began = time.monotonic()
    with engines_folder() as folder:
        async with _opened(folder, memories, seconds) as load:
            await load.capacity()  # warm
            await load.phase("warming up")
            phases = [await load.phase("four times"), await load.phase("beside a flood", with_quiet=True)]
    return Trial(
        name="overload",
        size=f"{seconds:g} s of each phase, {memories:,} memories of each of two tenants, ttl {_TTL_MS} ms",
        promises=[promise for phase in phases for promise in _promises(phase)],
        figures={phase.name: _figures(phase) for phase in phases},
        seconds=time.monotonic() - began,
    )


@contextlib.contextmanager
def pinned(worker: int, others: Iterable[int]) -> Generator[None]:
    """The worker has the last core for itself, this process and the others have the rest, where there are two.

    The processes that a worker has started, as that of its index, are a part of it.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for process in process_tree(worker):
            _pin(process.pid, {cores[-1]})
        for pid in (os.getpid(), *others):
            _pin(pid, set(cores[:-1]))
    try:
        yield
    finally:
        _pin(os.getpid(), set(cores))


def _pin(pid: int, cores: set[int]) -> None:
    """All threads of a process; those that come later have the cores of the one that starts them."""
    for path in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(path.name), cores)


@contextlib.asynccontextmanager
async def _opened(folder: Path, memories: int, seconds: float) -> AsyncGenerator[Overload]:
    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(folder / "data"))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, folder / "data", log, ORION_TENANTS="*"))
        stack.enter_context(pinned(worker.pid, engines.pids.values()))
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        told = corpus(memories, now=time.time()).memories
        for tenant in (_FLOOD, _QUIET):
            for start in range(0, len(told), 200):
                some = [memory | {"tenant": tenant} for memory in told[start : start + 200]]
                receipt = await client.store(some, timeout_s=300)
                assert receipt.error is None, receipt.error
        say(f"{memories} memories of each of two tenants are stored")
        redis = await stack.enter_async_context(connect(engines.redis_url))
        blocking = await stack.enter_async_context(connect(engines.redis_url, blocking=True))
        caller = Caller(redis, blocking)
        reading = asyncio.create_task(caller.read())
        stack.callback(reading.cancel)
        yield Overload(client, caller, seconds, worker.pid)


def _promises(phase: Phase) -> list[Promise]:
    unanswered = phase.outcomes.get("unanswered", 0) + phase.quiet_outcomes.get("unanswered", 0)
    failed = phase.outcomes.get("failed", 0) + phase.quiet_outcomes.get("failed", 0)
    found = [
        at_most(f"{phase.name}: queries without an answer", unanswered, 0),
        at_most(f"{phase.name}: queries that failed", failed, 0),
        at_least(f"{phase.name}: goodput of capacity", round(phase.goodput, 3), 0.85, is_timed=True),
        at_most(f"{phase.name}: p99 of the admitted, ms", round(phase.p99_ms), _TTL_MS, is_timed=True),
        at_most(
            f"{phase.name}: slowest receipt of a store, ms",
            round(max(phase.receipt_ms, default=0.0)),
            2000,
            is_timed=True,
        ),
        at_most(f"{phase.name}: seconds to normal", round(phase.normal_s, 1), 5, is_timed=True),
        at_most(
            f"{phase.name}: MiB by which the worker's memory grew",
            round(phase.memory_mib[1] - phase.memory_mib[0]),
            _GROWN_MIB,
            is_timed=True,
        ),
    ]
    if phase.quiet_share is not None:
        share = round(phase.quiet_share, 3)
        found.append(at_least(f"{phase.name}: share of a second tenant", share, 0.95, is_timed=True))
    return found


def _figures(phase: Phase) -> dict[str, object]:
    told = asdict(phase)
    return {name: told[name] for name in ("capacity", "of_cpu", "outcomes", "quiet_outcomes", "memory_mib", "load")}
