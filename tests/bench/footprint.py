"""What a memory costs while it is imported and afterwards: CPU by process, disk by store, memory of the worker.

    python -m tests.bench.footprint [--sizes 1000,5000,10000] [--json FILE]

Embedded engines, a worker and an importer in processes of their own, synthetic memories. They are imported as files
up to each size in turn, until index and graph have them; after a rest the bytes that the files of each store take
on the disk are counted, and the worker's memory: private (its heap and the engines') and mapped (files of the
index). Disk and memory a memory are the growth from the smallest size to the largest, so what an empty store takes
does not count, nor does Postgres's log, which is bounded; CPU is that of each step.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orion_recall.engines.embedded import EmbeddedEngines
from tests.bench.command import engines_folder, finish, parser_of, say, sizes
from tests.bench.corpus import corpus
from tests.bench.imports import Importer
from tests.bench.measure import tree_cpu_s
from tests.bench.running_worker import worker_process

DISK_TARGET_BYTES, HEAP_TARGET_BYTES = 20_000, 3_000
_DEFAULT_SIZES = "1000,5000,10000"
# Long enough for a save of the index, which comes ten seconds after a write.
_REST_S = 15.0
_BLOCK_BYTES = 512
_STATUS = re.compile(r"^(RssAnon|RssFile):\s+(\d+) kB", re.MULTILINE)
_WAL = "postgres: write-ahead log"
# The first part of a path that fits names the store.
_STORES = (
    ("index/", "index"),
    ("graph/", "graph"),
    ("postgres/cluster/pg_wal/", _WAL),
    ("postgres/", "postgres: tables"),
    ("valkey/", "valkey"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The stores with so many memories: bytes on disk by store, bytes of the worker, CPU in ms by process of a
    memory of the step that led to this size, and memories a second of that step."""

    memories: int
    disk: Mapping[str, int]
    private: int
    mapped: int
    cpu_ms: Mapping[str, float]
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One run, from the smallest size to the largest."""

    sizes: Sequence[Size]

    def disk_each(self, store: str) -> float:
        """The growth of a store on disk, in bytes a memory."""
        return self._growth([one.disk.get(store, 0) for one in self.sizes])

    @property
    def all_disk_each(self) -> float:
        """The growth of all stores on disk, in bytes a memory, but for Postgres's log: that has a fixed size."""
        return self._growth([sum(one.disk.values()) - one.disk.get(_WAL, 0) for one in self.sizes])

    @property
    def private_each(self) -> float:
        """The growth of the worker's private memory, in bytes a memory."""
        return self._growth([one.private for one in self.sizes])

    @property
    def stores(self) -> list[str]:
        """Every store of any size."""
        return list(dict.fromkeys(store for one in self.sizes for store in one.disk))

    def _growth(self, values: Sequence[int]) -> float:
        memories = self.sizes[-1].memories - self.sizes[0].memories
        return (values[-1] - values[0]) / memories


def disk_by_store(folder: Path) -> dict[str, int]:
    """The bytes that the files below a data folder take on the disk, by store; all others are `other`."""
    found = dict.fromkeys((*(store for _, store in _STORES), "other"), 0)
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                found[_store(path.relative_to(folder).as_posix())] += path.stat().st_blocks * _BLOCK_BYTES
    return found


def _store(path: str) -> str:
    return next((store for part, store in _STORES if path.startswith(part)), "other")


def memory_of(status: str) -> tuple[int, int]:
    """Private and mapped bytes of a process, from its `/proc/PID/status`."""
    found = {name: int(kib) << 10 for name, kib in _STATUS.findall(status)}
    return found.get("RssAnon", 0), found.get("RssFile", 0)


async def measure(options: argparse.Namespace, folder: Path) -> Footprint:
    """All sizes on one set of engines."""
    told = corpus(options.sizes[-1], now=time.time()).memories
    found: list[Size] = []
    data = folder / "data"
    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, data, log))
        importer = await stack.enter_async_context(Importer.start(engines, worker.pid, folder))
        for before, size in zip([0, *options.sizes], options.sizes, strict=False):
            say(f"{size:,} memories")
            servers = {name: tree_cpu_s(engines.pids[name]) for name in ("valkey", "postgres")}
            imported = await importer.run(told[before:size])
            used = {name: tree_cpu_s(engines.pids[name]) - spent for name, spent in servers.items()}
            await asyncio.sleep(options.rest)
            private, mapped = memory_of(Path(f"/proc/{worker.pid}/status").read_text("ascii"))
            found.append(
                Size(
                    memories=size,
                    disk=await asyncio.to_thread(disk_by_store, data),
                    private=private,
                    mapped=mapped,
                    cpu_ms={"worker": imported.worker_cpu_ms, "importer": imported.importer_cpu_ms}
                    | {name: spent * 1000 / (size - before) for name, spent in used.items()},
                    per_s=imported.per_s,
                )
            )
    return Footprint(sizes=found)


def as_json(footprint: Footprint) -> dict[str, Any]:
    """The whole result, with the growth worked out."""
    each = {store: footprint.disk_each(store) for store in footprint.stores}
    return asdict(footprint) | {
        "disk_each": each | {"all": footprint.all_disk_each},
        "private_each": footprint.private_each,
    }


def print_report(footprint: Footprint, out: Console) -> None:
    """Tables: disk and memory, then CPU."""
    for table in (_space(footprint), _cpu(footprint)):
        out.print(table)
        out.print()
    out.print(
        Text("Each: the growth from the first size to the last, a memory; of the disk without Postgres's log.")
    )


def _space(footprint: Footprint) -> Table:
    sizes_ = footprint.sizes
    table = _table("MB with so many memories", *(f"{one.memories:,}" for one in sizes_), "kB each", "target")
    for store in footprint.stores:
        values = [f"{one.disk.get(store, 0) / 1e6:.1f}" for one in sizes_]
        table.add_row(f"disk, {store}", *values, f"{footprint.disk_each(store) / 1e3:.1f}", "")
    values = [f"{sum(one.disk.values()) / 1e6:.1f}" for one in sizes_]
    table.add_row(
        "disk",
        *values,
        f"{footprint.all_disk_each / 1e3:.1f}",
        _verdict(footprint.all_disk_each, DISK_TARGET_BYTES),
    )
    values = [f"{one.private / 1e6:.1f}" for one in sizes_]
    table.add_row(
        "worker, private", *values, f"{footprint.private_each / 1e3:.1f}",
        _verdict(footprint.private_each, HEAP_TARGET_BYTES),
    )  # fmt: skip
    table.add_row("worker, mapped files", *(f"{one.mapped / 1e6:.1f}" for one in sizes_), "", "")
    return table


def _cpu(footprint: Footprint) -> Table:
    sizes_ = footprint.sizes
    table = _table("CPU ms a memory", *(f"{one.memories:,}" for one in sizes_))
    for process in sizes_[0].cpu_ms:
        table.add_row(process, *(f"{one.cpu_ms[process]:.2f}" for one in sizes_))
    table.add_row("memories a second", *(f"{one.per_s:.0f}" for one in sizes_))
    return table


def _verdict(found: float, most: int) -> str:
    return f"<= {most / 1e3:g} kB: {'reached' if found <= most else 'NOT reached'}"


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default=sizes(_DEFAULT_SIZES), help="separated by commas")
    parser.add_argument("--rest", type=float, default=_REST_S, help="seconds before disk and memory are read")
    read = parser.parse_args(arguments)
    if len(read.sizes) < 2:
        parser.error("at least two sizes")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    with engines_folder() as folder:
        finish(measure(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
