"""Recalls, memory, disk and deletions at many memories, several sizes side by side.

    python -m tests.bench.scale [--sizes 10000,100000] [--rounds 3] [--seconds-per-cell 3] [--keep FOLDER]
                                [--json FILE]

Stores are filled without the bus and with quick vectors (`stores`): a tenant of 1,000 memories and one of all
others in the same stores. On them runs a real worker for each size: recalls of both tenants in turns, size by size
in every round, then deletions. With --keep the stores stay in the folder for
another run; the last hours of their timeline are then in the past. A million memories take about 15 GB of disk.

It is a measurement, not a test: the exit code is 0 whatever comes out. Wall times count on a quiet machine only;
ratios are within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from orion_recall.cli.output import Table
from orion_recall.client import RecallClient
from orion_recall.contracts import RecallOptionsV1
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import wait_for_copies
from orion_recall.postgres.pool import open_pool
from tests.bench.background import settled
from tests.bench.command import engines_folder, finish, parser_of, say, sizes
from tests.bench.measure import disk_by_store, percentile, resident_mib, tree_cpu_s
from tests.bench.running_worker import (
    RECORD,
    WORKER,
    Imported,
    RunningWorker,
    queries_from,
    recall_cell,
    worker_process,
)
from tests.bench.scale.stores import LARGE, SMALL, Stores, open_stores

_IN_FLIGHT = (1, 8)
_DELETED = 20
_SETTLE_S = 2.0
Figures = dict[str, list[float]]
"""Of one size: what was measured once, or in every round, by its name."""


async def run(options: argparse.Namespace, folder: Path) -> Mapping[int, Figures]:
    """All sizes: recalls side by side, then deletions."""
    found: dict[int, Figures] = {size: defaultdict(list) for size in options.sizes}
    async with contextlib.AsyncExitStack() as stack:
        every: list[Stores] = []
        for size in options.sizes:
            stores = await stack.enter_async_context(open_stores(size, folder / str(size)))
            every.append(stores)
            found[size]["filled in s"].append(stores.filled_s)
            for name, taken in (await asyncio.to_thread(disk_by_store, stores.settings.data_dir)).items():
                found[size][f"disk, MiB: {name}"].append(taken / 2**20)
        async with contextlib.AsyncExitStack() as workers:
            serving = [
                await workers.enter_async_context(_serving(stores, options.profile, found[stores.size]))
                for stores in every
            ]
            await settled([one[LARGE] for one in serving])
            for number in range(options.rounds):
                say(f"round {number + 1} of {options.rounds}: recalls")
                for tenant, many in itertools.product((SMALL, LARGE), _IN_FLIGHT):
                    for one in serving:
                        await _recalls(one[tenant], tenant, many, options.seconds_per_cell, found[one[tenant].size])
            for one in serving:
                say(f"{one[LARGE].size:,} memories: deletions")
                figures = found[one[LARGE].size]
                own, mapped = resident_mib(one[LARGE].worker_pid)
                figures["memory after recalls, MiB: own"].append(own)
                figures["memory after recalls, MiB: mapped files"].append(mapped)
                await _deletions(one[LARGE], figures)
    return found


@contextlib.asynccontextmanager
async def _serving(stores: Stores, profile: str, figures: Figures) -> AsyncGenerator[Mapping[str, RunningWorker]]:
    """A worker on the stores until the end of the block, with its questions by tenant."""
    async with contextlib.AsyncExitStack() as stack:
        data = stores.settings.data_dir
        log = stack.enter_context((data.parent / "worker.log").open("ab"))
        began = time.perf_counter()
        process = worker_process(stores.engines, data, log, ORION_TENANTS="*")
        worker = await stack.enter_async_context(process)
        figures["start of the worker, s"].append(time.perf_counter() - began)
        figures["start of the worker, CPU s"].append(tree_cpu_s(worker.pid))
        client = await stack.enter_async_context(RecallClient.connect(stores.engines.redis_url, service="bench"))
        one = RunningWorker(
            size=stores.size,
            engines=stores.engines,
            worker_pid=worker.pid,
            client=client,
            queries=iter(()),
            imported=Imported(memories=stores.size, seconds=stores.filled_s, worker_peak_mib=0.0),
        )
        yield {
            tenant: replace(one, queries=queries_from(sessions, profile, options=RecallOptionsV1(tenant=tenant)))
            for tenant, sessions in stores.sessions.items()
        }


async def _recalls(worker: RunningWorker, tenant: str, many: int, seconds: float, figures: Figures) -> None:
    cell = await recall_cell(worker, many, seconds)
    for name, value in (
        ("p50 ms", cell.p50_ms),
        ("p95 ms", cell.p95_ms),
        ("CPU ms, worker", cell.cpu_ms[WORKER]),
        ("CPU ms, Postgres", cell.cpu_ms[RECORD]),
        ("per s", cell.per_s),
    ):
        figures[f"{tenant} tenant, {many} in flight: {name}"].append(value)


async def _deletions(worker: RunningWorker, figures: Figures) -> None:
    """Memories of the large tenant, deleted one after another, until every copy is without them."""
    step = max(1, worker.size // 2 // _DELETED)
    pool = await open_pool(worker.engines.postgres_dsn, name="bench", max_size=1)
    pids = {"worker": worker.worker_pid, "Postgres": worker.engines.pids["postgres"]}
    try:
        await asyncio.sleep(_SETTLE_S)
        before, taken_ms = {name: tree_cpu_s(pid) for name, pid in pids.items()}, list[float]()
        for number in range(_DELETED):
            began = time.perf_counter()
            receipt = await worker.client.delete([f"m-{number * step:06d}"], tenant=LARGE)
            taken_ms.append((time.perf_counter() - began) * 1000)
            if receipt.error is not None or not receipt.deleted:
                raise RuntimeError(f"a deletion: {receipt}")
        record = Record(pool)
        await wait_for_copies(record.copies, await record.head())
        figures["one deletion: ms to the receipt"].append(percentile(taken_ms, 0.5))
        for name, pid in pids.items():
            figures[f"one deletion: CPU ms, {name}"].append((tree_cpu_s(pid) - before[name]) * 1000 / _DELETED)
    finally:
        await pool.close()


def print_report(result: Mapping[int, Figures], out: Console) -> None:
    """A column for each size, medians of the rounds; x: how much more than the first size, round by round."""
    first, *others = result.values()
    names = ("", *(f"{size:,}" for size in result), *(f"x at {size:,}" for size in list(result)[1:]))
    rows = [
        (
            name,
            *(_number(percentile(figures[name], 0.5)) for figures in result.values()),
            *(_ratio(first[name], figures[name]) for figures in others),
        )
        for name in first
    ]
    out.print(Table(names, rows))


def _ratio(before: Sequence[float], after: Sequence[float]) -> str:
    each = [new / old for old, new in zip(before, after, strict=True) if old]
    return f"{percentile(each, 0.5):.2f}" if each else "-"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.3f}"


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--sizes", type=sizes, default="10000,100000", help="memories, separated by commas")
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="where the stores stay")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    with contextlib.nullcontext(options.keep) if options.keep else engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=lambda found: {"sizes": found}, file=options.json)


if __name__ == "__main__":
    main()
