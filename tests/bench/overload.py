"""Goodput beyond capacity, and what a second tenant gets beside a flood; receipts of stores meanwhile.

    python -m tests.bench.overload [--memories 500] [--seconds 10] [--ttl-ms 2000] [--pinned] [--json FILE]

One worker. Its capacity is what it answers in a closed loop, measured before and after every phase, since other
programs share the machine. Then queries come at a steady rate, whether earlier ones were answered or not: at 1, 1.3
and 4 times that capacity, and at 4 times from one tenant while another asks for 15% of it. Goodput is the share of
the capacity that was answered `ok` or `empty` before the caller's ttl was over, by the caller's clock. `of its CPU`
is the same in answers for a second of the worker's CPU: what overload costs where others take the processor.
Pinned, the worker has one core for itself, and the caller shares the others with the bus and Postgres. After a
phase one query follows the other until an answer takes no longer than the slowest of the capacity before:
`normal_s` after the end of the load.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.contracts import QUERY_KIND, REPLY_KIND
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError
from orion_recall.tasks import cancel
from tests.bench.command import engines_folder, finish, parser_of, say
from tests.bench.corpus import corpus, questions
from tests.bench.measure import percentile, process_tree, tree_cpu_s, tree_memory_mib
from tests.bench.running_worker import worker_process

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
    """One phase: the load in times of the capacity, and what became of it. `receipt_ms` are those of stores.

    `memory_mib` is what was resident of the worker and the process of its index before, and at the most while it
    lasted.
    """

    name: str
    times: float
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

    def __init__(self, redis: Redis, blocking: Redis, ttl_ms: int) -> None:
        self._redis, self._blocking, self._ttl_ms = redis, blocking, ttl_ms
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
        until = time.perf_counter() + self._ttl_ms / 1000 + _SETTLE_S
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
        if outcome in _GOOD and (now - sent_at) * 1000 > self._ttl_ms:
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
            "ttl_ms": self._ttl_ms,
            "payload": payload,
        }
        return json.dumps(whole).encode()


class Bench:
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

    async def phase(self, name: str, times: float, *, with_quiet: bool = False) -> Phase:
        """Measure the capacity, then that many times as much."""
        before, before_cpu = await self.capacity()
        say(f"{name}: the capacity is {before:.1f}/s")
        asked, quiet, receipts = Asked(), Asked(), list[float]()
        flows = [self._caller.flood(asked, _FLOOD, times * before, self._seconds), self._stores(receipts)]
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
            times=times,
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


# Name, times of the capacity, and whether a second tenant asks as well.
PHASES = (
    ("at capacity", 1.0, False),
    ("a little over", 1.3, False),
    ("four times", 4.0, False),
    ("beside a flood", 4.0, True),
)


async def measure(
    memories: int,
    seconds: float,
    ttl_ms: int,
    *,
    is_pinned: bool = False,
    phases: Sequence[tuple[str, float, bool]] = PHASES,
) -> list[Phase]:
    """The phases, on engines of their own."""
    with engines_folder() as folder:
        async with _opened(folder, memories, ttl_ms, seconds, is_pinned) as bench:
            await bench.capacity()  # warm
            return [await bench.phase(name, times, with_quiet=with_quiet) for name, times, with_quiet in phases]


@contextlib.contextmanager
def pinned(worker: int, others: Iterable[int]) -> Generator[bool]:
    """The worker has the last core for itself, this process and the others have the rest; whether there are two.

    The processes that a worker has started, as that of its index, are a part of it.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for process in process_tree(worker):
            _pin(process.pid, {cores[-1]})
        for pid in (os.getpid(), *others):
            _pin(pid, set(cores[:-1]))
    try:
        yield len(cores) > 1
    finally:
        _pin(os.getpid(), set(cores))


def _pin(pid: int, cores: set[int]) -> None:
    """All threads of a process; those that come later have the cores of the one that starts them."""
    for path in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(path.name), cores)


@contextlib.asynccontextmanager
async def _opened(
    folder: Path, memories: int, ttl_ms: int, seconds: float, is_pinned: bool
) -> AsyncGenerator[Bench]:
    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(folder / "data"))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, folder / "data", log, ORION_TENANTS="*"))
        if is_pinned:
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
        caller = Caller(redis, blocking, ttl_ms)
        reading = asyncio.create_task(caller.read())
        stack.callback(reading.cancel)
        yield Bench(client, caller, seconds, worker.pid)


def show(phases: list[Phase], console: Console) -> None:
    """The phases as a table."""
    columns = (
        "phase",
        "capacity/s",
        "goodput",
        "of its CPU",
        "p99 ms",
        "outcomes",
        "second tenant",
        "slowest receipt",
        "memory MiB",
        "normal after",
        "load",
    )
    table = Table(*columns)
    for one in phases:
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(one.outcomes.items()))
        quiet = "" if one.quiet_share is None else f"{one.quiet_share:.0%} {one.quiet_outcomes}"
        receipt = f"{max(one.receipt_ms):.0f} ms of {len(one.receipt_ms)}" if one.receipt_ms else "none"
        table.add_row(
            f"{one.name} ({one.times:g})",
            f"{one.capacity:.1f}",
            f"{one.goodput:.0%}",
            f"{one.of_cpu:.0%}",
            f"{one.p99_ms:.0f}",
            outcomes,
            quiet,
            receipt,
            f"{one.memory_mib[0]:.0f} to {one.memory_mib[1]:.0f}",
            f"{one.normal_s:.1f} s",
            f"{one.load:.1f}",
        )
    console.print(table)


def main() -> None:
    """Read the arguments, measure, report."""
    parser = parser_of(__doc__)
    parser.add_argument("--memories", type=int, default=500, help="of each of two tenants")
    parser.add_argument("--seconds", type=float, default=10.0, help="of every phase")
    parser.add_argument("--ttl-ms", type=int, default=2000)
    parser.add_argument("--pinned", action="store_true", help="the worker has a core for itself")
    options = parser.parse_args()
    finish(
        measure(options.memories, options.seconds, options.ttl_ms, is_pinned=options.pinned),
        show=show,
        as_json=lambda phases: {"phases": [asdict(one) for one in phases]},
        file=options.json,
    )


if __name__ == "__main__":
    main()
