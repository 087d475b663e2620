"""A real worker on filled stores: its start and memory, recalls, and changes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.contracts.memory import MemoryReceiptV1
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from tests.bench.measure import percentile, process_tree, tree_cpu_s
from tests.bench.running_worker import RECORD, WORKER, Imported, RunningWorker, queries_from, worker_process
from tests.bench.scale.memories import LARGE, SMALL, memory_id
from tests.bench.scale.stores import Stores, disk_mib

_ALL_TENANTS = "*"
_MEMORY = re.compile(r"^(VmRSS|RssAnon|RssFile|VmHWM):\s+(\d+) kB", re.MULTILINE)
_SETTLE_S, _POLL_S = 2.0, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A worker that takes queries: seconds until it did, and its memory then, own and of mapped files."""

    seconds: float
    cpu_s: float
    own_mib: float
    mapped_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Changes one at a time: ms to the receipt, and CPU ms of each until every copy has it."""

    what: str
    p50_ms: float
    cpu_ms: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A running worker, with its questions by tenant."""

    stores: Stores
    started: Started
    by_tenant: dict[str, RunningWorker]

    @property
    def pid(self) -> int:
        """That of the worker."""
        return self.by_tenant[LARGE].worker_pid


@contextlib.asynccontextmanager
async def serving(stores: Stores, profile: str) -> AsyncGenerator[Serving]:
    """A worker on the stores until the end of the block."""
    async with contextlib.AsyncExitStack() as stack:
        log = stack.enter_context((stores.data.parent / "worker.log").open("ab"))
        began = time.perf_counter()
        process = worker_process(stores.engines, stores.data, log, ORION_TENANTS=_ALL_TENANTS)
        worker = await stack.enter_async_context(process)
        started = _started(worker.pid, time.perf_counter() - began)
        client = await stack.enter_async_context(RecallClient.connect(stores.engines.redis_url, service="bench"))
        one = RunningWorker(
            size=stores.size,
            engines=stores.engines,
            worker_pid=worker.pid,
            client=client,
            queries=_queries(stores, LARGE, profile),
            imported=Imported(memories=stores.size, seconds=stores.filled_s or 0.0, worker_peak_mib=0.0),
        )
        small = replace(one, queries=_queries(stores, SMALL, profile))
        yield Serving(stores=stores, started=started, by_tenant={SMALL: small, LARGE: one})


def _queries(stores: Stores, tenant: str, profile: str) -> Iterator[RecallQueryV1]:
    for query in queries_from(stores.sessions[tenant], profile):
        yield query.model_copy(update={"options": RecallOptionsV1(tenant=tenant)})


def _started(pid: int, seconds: float) -> Started:
    memory = memory_mib(pid)
    return Started(seconds=seconds, cpu_s=tree_cpu_s(pid), own_mib=memory["RssAnon"], mapped_mib=memory["RssFile"])


def memory_mib(pid: int) -> dict[str, float]:
    """Resident memory by the kernel's names, of a worker with the process of its index."""
    total: dict[str, float] = defaultdict(float)
    for process in process_tree(pid):
        for name, value in _MEMORY.findall(Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")):
            total[name] += int(value) / 1024
    return dict(total)


def disks(stores: Stores) -> dict[str, float]:
    """MiB on the disk by folder."""
    return {name: disk_mib(stores.data / name) for name in ("index", "graph", "postgres")}


async def changes(one: Serving, count: int) -> list[Changed]:
    """Updates, then deletions, of memories of the large tenant, one after another."""
    client, found = one.by_tenant[LARGE].client, list[Changed]()
    names = [memory_id(7 + 13 * number) for number in range(2 * count)]

    async def update(name: str) -> MemoryReceiptV1:
        told = [{"id": name, "text": f"The meeting about {name} is on Thursday at nine, not on Monday."}]
        return await client.update(told, tenant=LARGE)

    async def delete(name: str) -> MemoryReceiptV1:
        return await client.delete([name], tenant=LARGE)

    for what, change, some in (("update", update, names[:count]), ("delete", delete, names[count:])):
        await asyncio.sleep(_SETTLE_S)
        before, taken_s = _cpu_s(one), list[float]()
        for name in some:
            began = time.perf_counter()
            receipt = await change(name)
            taken_s.append(time.perf_counter() - began)
            if receipt.error is not None or not (receipt.updated or receipt.deleted):
                raise RuntimeError(f"{what}: {receipt}")
        await _wait_for_copies(one.stores)
        used = {name: (after - before[name]) * 1000 / len(some) for name, after in _cpu_s(one).items()}
        found.append(Changed(what=what, p50_ms=percentile(taken_s, 0.5) * 1000, cpu_ms=used))
    return found


def _cpu_s(one: Serving) -> dict[str, float]:
    return {WORKER: tree_cpu_s(one.pid), RECORD: tree_cpu_s(one.stores.engines.pids["postgres"])}


async def _wait_for_copies(stores: Stores) -> int:
    """Waits until the own copies are at the head; how many entries the one behind had to go."""
    pool = await open_pool(stores.engines.postgres_dsn, name="bench", max_size=1)
    try:
        record = Record(pool)
        head, before = await record.head(), -1
        while True:
            positions = [copy.position for copy in await record.copies() if not copy.is_gone]
            least = min(positions, default=0)
            before = least if before < 0 else before
            if least >= head:
                return head - before
            await asyncio.sleep(_POLL_S)
    finally:
        await pool.close()
