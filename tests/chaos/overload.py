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
import os
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from orion_recall.tasks import cancel
from tests.bench.command import say
from tests.bench.corpus import corpus, questions
from tests.bench.measure import percentile, process_tree, tree_cpu_s, tree_memory_mib
from tests.chaos.caller import Caller, Sent, caller_on
from tests.chaos.place import QUERIES, STORES, fill, open_place
from tests.chaos.trial import Promise, Trial, at_least, at_most

_TTL_MS, _GROWN_MIB, _TIMES = 2000, 64, 4
_FLOOD, _QUIET, _STORER = "flood", "quiet", "storer"
_QUIET_SHARE, _STORES_PER_S = 0.15, 1.0
_CAPACITY_S, _SETTLE_S, _LONGEST_S = 5.0, 3.0, 60.0
_GOOD = ("ok", "empty")


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


class Overload:
    """The phases, on one worker."""

    def __init__(self, asked: Caller, stored: Caller, seconds: float, worker_pid: int) -> None:
        self._asked, self._stored, self._seconds, self._pid = asked, stored, seconds, worker_pid
        self._texts = questions(seed=23)
        self._slowest_s = 0.0

    async def capacity(self) -> tuple[float, float]:
        """Good answers a second in a closed loop, and for a second of the worker's CPU."""
        cpu_s = tree_cpu_s(self._pid)
        asked, passed_s = await self._asked.in_closed_loop(self._texts, _CAPACITY_S, tenant=_FLOOD)
        self._slowest_s = max(sent.took_s or 0.0 for sent in asked)
        good = sum(_outcome(sent) in _GOOD for sent in asked)
        return good / passed_s, good / (tree_cpu_s(self._pid) - cpu_s)

    async def _flood(self, tenant: str, per_s: float) -> list[Sent]:
        """Send so many queries a second, without waiting for the answers."""
        began, sent = time.monotonic(), list[Sent]()
        while (now := time.monotonic() - began) < self._seconds:
            for _ in range(int(now * per_s) - len(sent)):
                payload = {"fragment": next(self._texts), "options": {"tenant": tenant}}
                sent.append(await self._asked.send(payload, ttl_ms=_TTL_MS))
            await asyncio.sleep(0.01)
        return sent

    async def _normal(self) -> float:
        """Seconds until a query is answered as before."""
        began = time.monotonic()
        while time.monotonic() - began < _LONGEST_S:
            sent = await self._asked.send({"fragment": next(self._texts), "options": {"tenant": _FLOOD}})
            while not sent.answers and time.monotonic() - began < _LONGEST_S:
                await asyncio.sleep(0.005)
            if _outcome(sent) in _GOOD and (sent.took_s or 0.0) <= self._slowest_s:
                break
        return time.monotonic() - began

    async def _watch_memory(self, found: list[float]) -> None:
        """What is resident of the worker, every second, until cancelled."""
        while True:
            found.append(tree_memory_mib(self._pid))
            await asyncio.sleep(1)

    async def phase(self, name: str, *, with_quiet: bool = False) -> Phase:
        """Measure the capacity, then four times as much."""
        before, before_cpu = await self.capacity()
        say(f"{name}: the capacity is {before:.1f}/s")
        cpu_s, memory_mib = tree_cpu_s(self._pid), list[float]()
        watching = asyncio.create_task(self._watch_memory(memory_mib))
        quiet_per_s = max(2.0, _QUIET_SHARE * before) if with_quiet else 0.0
        flood, quiet, receipts = await asyncio.gather(
            self._flood(_FLOOD, _TIMES * before), self._flood(_QUIET, quiet_per_s), self._stores()
        )
        normal_s = await self._normal()
        # The rest is unanswered, a while beyond its ttl.
        await self._asked.all_answered(stalled_s=_TTL_MS / 1000 + _SETTLE_S)
        self._asked.wait_no_longer()
        await cancel(watching)
        cpu_s = tree_cpu_s(self._pid) - cpu_s
        after, after_cpu = await self.capacity()
        capacity = (before + after) / 2
        outcomes, quiet_outcomes = Counter(map(_outcome, flood)), Counter(map(_outcome, quiet))
        good = sum((outcomes + quiet_outcomes)[name] for name in _GOOD)
        took_ms = [(sent.took_s or 0.0) * 1000 for sent in flood if _outcome(sent) in _GOOD]
        await self._stored.all_answered(stalled_s=_LONGEST_S)
        return Phase(
            name=name,
            capacity=capacity,
            goodput=good / self._seconds / capacity,
            of_cpu=good / cpu_s / ((before_cpu + after_cpu) / 2),
            p99_ms=percentile(took_ms, 0.99) if took_ms else 0.0,
            outcomes=dict(outcomes),
            quiet_share=sum(quiet_outcomes[name] for name in _GOOD) / len(quiet) if with_quiet else None,
            quiet_outcomes=dict(quiet_outcomes),
            receipt_ms=[(sent.took_s or _LONGEST_S) * 1000 for sent in receipts],
            memory_mib=(memory_mib[0], max(memory_mib)),
            normal_s=normal_s,
            load=os.getloadavg()[0],
        )

    async def _stores(self) -> list[Sent]:
        began, sent = time.monotonic(), list[Sent]()
        while time.monotonic() - began < self._seconds:
            name = uuid4().hex[:8]
            memory = {"id": name, "tenant": _STORER, "text": f"Crate {name} of the lighthouse was painted green."}
            sent.append(await self._stored.send({"memories": [memory]}))
            await asyncio.sleep(max(0.0, began + len(sent) / _STORES_PER_S - time.monotonic()))
        return sent


def _outcome(sent: Sent) -> str:
    """`late` is a good answer after the ttl."""
    if not sent.answers:
        return "unanswered"
    outcome, took_s = sent.answers[0][1], sent.took_s or 0.0
    return "late" if outcome in _GOOD and sent.ttl_ms is not None and took_s * 1000 > sent.ttl_ms else outcome


async def run(*, seconds: float, memories: int) -> Trial:
    """The trial: two phases of so many seconds, after one that warms up: caches fill, and memory with them."""
    began = time.monotonic()
    async with open_place(ORION_TENANTS="*") as place:
        worker = await place.start("a")
        told = corpus(memories, now=time.time()).memories
        await fill(place, [memory | {"tenant": tenant} for tenant in (_FLOOD, _QUIET) for memory in told])
        pid, url = worker.running.process.pid, place.engines.redis_url
        async with caller_on(url, QUERIES) as asked, caller_on(url, STORES) as stored:
            with pinned(pid, place.engines.pids.values()):
                load = Overload(asked, stored, seconds, pid)
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


def _promises(phase: Phase) -> Sequence[Promise]:
    outcomes, name = Counter(phase.outcomes) + Counter(phase.quiet_outcomes), phase.name
    slowest_ms, grown = max(phase.receipt_ms, default=0.0), phase.memory_mib[1] - phase.memory_mib[0]
    found = [
        at_most(f"{name}: queries without an answer", outcomes["unanswered"], 0),
        at_most(f"{name}: queries that failed", outcomes["failed"], 0),
        at_least(f"{name}: goodput of capacity", round(phase.goodput, 3), 0.85, is_timed=True),
        at_most(f"{name}: p99 of the admitted, ms", round(phase.p99_ms), _TTL_MS, is_timed=True),
        at_most(f"{name}: slowest receipt of a store, ms", round(slowest_ms), 2000, is_timed=True),
        at_most(f"{name}: seconds to normal", round(phase.normal_s, 1), 5, is_timed=True),
        at_most(f"{name}: MiB by which the worker's memory grew", round(grown), _GROWN_MIB, is_timed=True),
    ]
    if phase.quiet_share is not None:
        share = round(phase.quiet_share, 3)
        found.append(at_least(f"{name}: share of a second tenant", share, 0.95, is_timed=True))
    return found


def _figures(phase: Phase) -> dict[str, object]:
    told = asdict(phase)
    return {name: told[name] for name in ("capacity", "of_cpu", "outcomes", "quiet_outcomes", "memory_mib", "load")}
