"""Recalls, engines, memory, disk and changes at many memories, several sizes side by side.

    python -m tests.bench.scale [--sizes 10000,100000] [--rounds 3] [--seconds-per-cell 3] [--keep FOLDER]
                                [--json FILE]

Stores are filled in bulk, without the bus and without embedding (`memories`, `record`, `graph`, `index`): a tenant
of 1,000 memories and a tenant of all others in the same stores. On them run the engines alone, call by call, and a
real worker for each size: recalls of both tenants in turns, size by size in every round, then changes. With --keep
the stores stay in the folder for another run; the last hours of their timeline are then in the past. A million
memories take about 15 GB of disk.

It is a measurement, not a test: the exit code is 0 whatever comes out. Wall times count on a quiet machine only;
ratios are within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

from tests.bench.background import settled
from tests.bench.command import engines_folder, finish, parser_of, say, sizes
from tests.bench.running_worker import Cell, recall_cell
from tests.bench.scale.calls import Called, call_engines
from tests.bench.scale.memories import LARGE, SMALL
from tests.bench.scale.report import Result, SizeResult, as_json, print_report
from tests.bench.scale.stores import Stores, open_stores
from tests.bench.scale.worker import (
    Changed,
    Serving,
    Started,
    changes,
    disks,
    memory_mib,
    serving,
)

_IN_FLIGHT = (1, 8)
_CHANGES = 20
Cells = dict[tuple[int, str, int], list[Cell]]


async def run(options: argparse.Namespace, folder: Path) -> Result:
    """All sizes: engines alone, then recalls side by side, then what changes them."""
    async with contextlib.AsyncExitStack() as stack:
        every: list[Stores] = []
        for size in options.sizes:
            say(f"{size:,} memories: stores")
            every.append(await stack.enter_async_context(open_stores(size, folder / str(size), say)))
        called: dict[int, list[Called]] = {}
        for stores in every:
            say(f"{stores.size:,} memories: engines alone")
            called[stores.size] = await call_engines(stores, options.profile)
        disk = {stores.size: await asyncio.to_thread(disks, stores) for stores in every}
        cells, started, memory = await _recalls(every, options)
        return Result(
            profile=options.profile,
            rounds=options.rounds,
            sizes=[
                SizeResult(
                    size=stores.size,
                    filled_s=stores.filled_s,
                    disk_mib=disk[stores.size],
                    called=called[stores.size],
                    started=started[stores.size],
                    memory_mib=memory[stores.size],
                    cells={f"{tenant} {many}": cells[stores.size, tenant, many] for tenant, many in _kinds()},
                    changes=await _changes(stores, options.profile),
                )
                for stores in every
            ],
        )


def _kinds() -> list[tuple[str, int]]:
    return [(tenant, many) for tenant in (SMALL, LARGE) for many in _IN_FLIGHT]


async def _recalls(
    every: Sequence[Stores], options: argparse.Namespace
) -> tuple[Cells, dict[int, Started], dict[int, dict[str, float]]]:
    """Cells of recalls by size, tenant and number in flight, one of each in every round; start and memory."""
    cells: Cells = {}
    async with contextlib.AsyncExitStack() as stack:
        workers: list[Serving] = []
        for stores in every:
            workers.append(await stack.enter_async_context(serving(stores, options.profile)))
        await settled([worker.by_tenant[LARGE] for worker in workers])
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}: recalls")
            for tenant, many in _kinds():
                for worker in workers:
                    cell = await recall_cell(worker.by_tenant[tenant], many, options.seconds_per_cell)
                    cells.setdefault((worker.stores.size, tenant, many), []).append(cell)
        started = {worker.stores.size: worker.started for worker in workers}
        memory = {worker.stores.size: memory_mib(worker.pid) for worker in workers}
    return cells, started, memory


async def _changes(stores: Stores, profile: str) -> list[Changed]:
    say(f"{stores.size:,} memories: changes")
    async with serving(stores, profile) as worker:
        return await changes(worker, _CHANGES)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default="10000,100000", help="memories, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds-per-cell", type=float, default=3.0)
    parser.add_argument("--profile", default="reflect.v1")
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="where the stores stay")
    read = parser.parse_args(arguments)
    if read.rounds < 1 or read.seconds_per_cell <= 0:
        parser.error("at least one round, and seconds above 0")
    return read


@contextlib.contextmanager
def _kept(folder: Path) -> Generator[Path]:
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    yield folder


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    with engines_folder() if options.keep is None else _kept(options.keep) as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
