"""Imports: memories a second, what each costs in CPU, disk and memory, and recalls beside an import.

    python -m tests.bench.imports [--sizes 1000,5000,10000] [--rounds 3] [--recalls-per-second 10] [--json FILE]

Embedded engines, a worker and an importer in processes of their own, synthetic memories. They are imported as files
up to each size in turn, until index and graph have them; after a rest the bytes that the files of each store take
on the disk are counted, and the worker's memory: private (its heap and the engines') and mapped (files of the
index). Disk and memory a memory are the growth from the smallest size to the largest, so what an empty store takes
does not count, nor does Postgres's log, which is bounded; CPU is that of each step.

Then recalls are asked at a steady rate, quiet, and again while another portion is imported. A recall is asked when
its time has come, however late the others are. Ratios are of one round; the median of the rounds is reported.

It is a measurement, not a test: the exit code is 0 whatever comes out. `python -m tests.bench.imports importer URL
DSN` is the importing side: it imports the files that it is told, one a line on standard input, as `orion-recall
import` does once it has started, and answers each with a line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from orion_recall.cli.output import table
from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import import_file, wait_for_copies
from orion_recall.postgres.pool import open_pool
from tests.bench.command import above_zero, at_least, engines_folder, finish, parser_of, say, sizes
from tests.bench.corpus import corpus
from tests.bench.measure import (
    WAL,
    RestOfMachine,
    Spread,
    disk_by_store,
    peak_memory_mib,
    percentile,
    resident_mib,
    tree_cpu_s,
    tree_peak_memory_mib,
)
from tests.bench.running_worker import module_process, queries_from, worker_process

DISK_TARGET_BYTES, HEAP_TARGET_BYTES, P95_TARGET = 20_000, 3_000, 1.6
# Long enough for a save of the index, which comes ten seconds after a write.
_REST_S = 15.0
_PORTION = 1_000
_STALLED_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One file: memories a second until index and graph had them and until the record had, CPU in ms a memory."""

    memories: int
    per_s: float
    stored_per_s: float
    cpu_ms: Mapping[str, float]
    importer_peak_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The stores with so many memories, and the import that led there. Disk (by store) is in bytes."""

    memories: int
    imported: Import
    disk: Mapping[str, int]
    private_mib: float
    mapped_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Recalls at a steady rate; `unanswered` are those with an error or no answer."""

    recalls: int
    unanswered: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Recalls alone, and beside an import."""

    quiet: Asked
    during: Asked
    beside: Import
    rest_busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run, from the smallest size to the largest."""

    sizes: Sequence[Size]
    rounds: Sequence[Round]
    worker_peak_mib: float

    def disk_each(self, store: str | None = None) -> float:
        """The growth of a store on disk in bytes a memory; of all but Postgres's log, which has a fixed size."""

        def bytes_of(one: Size) -> int:
            return one.disk.get(store, 0) if store is not None else sum(one.disk.values()) - one.disk.get(WAL, 0)

        return self._growth(bytes_of)

    @property
    def private_each(self) -> float:
        """The growth of the worker's private memory, in bytes a memory."""
        return self._growth(lambda one: one.private_mib) * 2**20

    def _growth(self, of: Callable[[Size], float]) -> float:
        first, last = self.sizes[0], self.sizes[-1]
        return (of(last) - of(first)) / (last.memories - first.memories)


class Importer:
    """The process that imports, and those whose CPU is counted meanwhile by name."""

    def __init__(self, process: Process, counted: Mapping[str, int], folder: Path) -> None:
        self._process, self._counted, self._folder = process, counted, folder

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, engines: EmbeddedEngines, worker_pid: int, folder: Path, log: IO[bytes]
    ) -> AsyncGenerator[Importer]:
        """Started, connected, waiting for files; ended with this block."""
        line = ("importer", engines.redis_url, engines.postgres_dsn)
        async with module_process("tests.bench.imports", *line, log=log, stdin=PIPE) as process:
            servers = {name: engines.pids[name] for name in ("valkey", "postgres")}
            yield cls(process, {"worker": worker_pid} | servers, folder)

    async def run(self, memories: Sequence[Mapping[str, Any]]) -> Import:
        """Imports them as one file; done when index and graph have them."""
        path = self._folder / "portion.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in memories), "utf-8")
        before = {name: tree_cpu_s(pid) for name, pid in self._counted.items()}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{path}\n".encode())
        await self._process.stdin.drain()
        if not (line := await self._process.stdout.readline()):
            raise RuntimeError("the importer has ended: see the worker's log")
        told = json.loads(line)
        used = {name: tree_cpu_s(pid) - before[name] for name, pid in self._counted.items()}
        used["importer"] = told["cpu_seconds"]
        if told["memories"] != len(memories):
            raise RuntimeError(f"{told['memories']} of {len(memories)} memories were new")
        return Import(
            memories=len(memories),
            per_s=len(memories) / told["seconds"],
            stored_per_s=len(memories) / told["stored_seconds"],
            cpu_ms={name: spent * 1000 / len(memories) for name, spent in used.items()},
            importer_peak_mib=told["peak_mib"],
        )


async def import_what_is_told(url: str, dsn: str) -> None:
    """The importing side, until standard input ends."""
    pool = await open_pool(dsn, name="bench-import", max_size=1)
    try:
        async with RecallClient.connect(url, service="bench-import") as client:
            print("ready", flush=True)
            while path := (await asyncio.to_thread(sys.stdin.readline)).strip():
                print(json.dumps(await _imported(client, Record(pool), Path(path))), flush=True)
    finally:
        await pool.close()


async def _imported(client: RecallClient, record: Record, path: Path) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    summary = await import_file(client.store, path)
    stored_s = time.perf_counter() - began
    if summary.position is None or summary.rejected or summary.conflict:
        raise RuntimeError(f"not all of it was stored: {summary.describe()}")
    waited = await wait_for_copies(record.copies, summary.position, stalled_s=_STALLED_S)
    if not waited.caught_up:
        raise RuntimeError(f"index and graph do not move: {waited}")
    return {
        "memories": summary.stored,
        "seconds": time.perf_counter() - began,
        "stored_seconds": stored_s,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": peak_memory_mib(os.getpid()),
    }


async def asked(
    client: RecallClient, queries: Iterator[RecallQueryV1], per_s: float, ended: Callable[[], bool]
) -> Asked:
    """Recalls at a steady rate until it has ended; all that were asked are waited for."""
    taken_s: list[float | None] = []

    async def ask() -> None:
        began = time.perf_counter()
        try:
            answer = await client.recall(next(queries))
        except ClientError:
            taken_s.append(None)
        else:
            taken_s.append(time.perf_counter() - began if answer.error is None else None)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        number = 0
        while not ended():
            group.create_task(ask())
            number += 1
            await asyncio.sleep(max(0.0, began + number / per_s - time.perf_counter()))
    answered = [taken for taken in taken_s if taken is not None]
    if not answered:
        raise RuntimeError("no recall was answered: see the worker's log")
    return Asked(
        recalls=len(answered),
        unanswered=len(taken_s) - len(answered),
        p50_ms=percentile(answered, 0.5) * 1000,
        p95_ms=percentile(answered, 0.95) * 1000,
    )


async def measure(options: argparse.Namespace, folder: Path) -> Result:
    """All sizes on one set of engines, then the rounds with recalls."""
    told = corpus(options.sizes[-1] + options.rounds * options.portion, now=time.time())
    queries = queries_from(told.recent_sessions, options.profile)
    found: list[Size] = []
    rounds: list[Round] = []
    data = folder / "data"
    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, data, log))
        importer = await stack.enter_async_context(Importer.start(engines, worker.pid, folder, log))
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        # From the newest on, so that the sessions that are asked from are there.
        left = told.memories[::-1]
        for before, size in zip([0, *options.sizes], options.sizes, strict=False):
            say(f"{size:,} memories")
            imported = await importer.run(left[before:size])
            await asyncio.sleep(options.rest)
            private, mapped = resident_mib(worker.pid)
            disk = await asyncio.to_thread(disk_by_store, data)
            found.append(Size(memories=size, imported=imported, disk=disk, private_mib=private, mapped_mib=mapped))
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}: {options.portion:,} memories beside recalls")
            first, rest = options.sizes[-1] + number * options.portion, RestOfMachine()
            until = time.perf_counter() + options.quiet_seconds
            rate = options.recalls_per_second
            quiet = await asked(client, queries, rate, lambda until=until: time.perf_counter() >= until)
            importing = asyncio.create_task(importer.run(left[first : first + options.portion]))
            during = await asked(client, queries, rate, importing.done)
            rounds.append(Round(quiet=quiet, during=during, beside=await importing, rest_busy=rest.busy_share()))
        return Result(sizes=found, rounds=rounds, worker_peak_mib=tree_peak_memory_mib(worker.pid))


def as_json(result: Result) -> dict[str, Any]:
    """The whole result, with the growth worked out."""
    each = {store: result.disk_each(store) for store in result.sizes[0].disk} | {"all": result.disk_each()}
    return asdict(result) | {"disk_each": each, "private_each": result.private_each}


def print_report(result: Result, out: Console) -> None:
    """What grows with the memories, what each costs, and recalls beside an import."""
    steps = result.sizes
    rows = [
        _row(f"disk MB, {store}", [one.disk[store] / 1e6 for one in steps], result.disk_each(store))
        for store in steps[0].disk
    ]
    whole, heap = result.disk_each(), result.private_each
    rows += [
        _row("disk MB", [sum(one.disk.values()) / 1e6 for one in steps], whole, DISK_TARGET_BYTES),
        _row("worker MiB, private", [one.private_mib for one in steps], heap, HEAP_TARGET_BYTES),
        _row("worker MiB, mapped files", [one.mapped_mib for one in steps]),
        _row("memories a second", [one.imported.per_s for one in steps]),
        _row("stored a second", [one.imported.stored_per_s for one in steps]),
    ]
    rows += [
        _row(f"CPU ms a memory, {process}", [one.imported.cpu_ms[process] for one in steps])
        for process in steps[0].imported.cpu_ms
    ]
    out.print(table(("with so many memories", *(f"{one.memories:,}" for one in steps), "kB each", "target"), rows))
    out.print(Text("Each: the growth from the first size to the last; of the disk without Postgres's log.\n"))
    ratio = Spread.of([one.during.p95_ms / one.quiet.p95_ms for one in result.rounds])
    assert ratio is not None
    figures: Mapping[str, Callable[[Round], float]] = {
        "recall p50 ms, quiet": lambda one: one.quiet.p50_ms,
        "recall p95 ms, quiet": lambda one: one.quiet.p95_ms,
        "recall p50 ms, beside an import": lambda one: one.during.p50_ms,
        "recall p95 ms, beside an import": lambda one: one.during.p95_ms,
        "recalls unanswered": lambda one: float(one.quiet.unanswered + one.during.unanswered),
        "import beside recalls, memories a second": lambda one: one.beside.per_s,
        "rest of the machine busy, %": lambda one: one.rest_busy * 100,
    }
    shown = [(name, str(Spread.of([of(one) for one in result.rounds])), "") for name, of in figures.items()]
    verdict = f"<= {P95_TARGET}: {'reached' if ratio.median <= P95_TARGET else 'NOT reached'}"
    shown.append(("recall p95 beside an import / quiet", str(ratio), verdict))
    out.print(table(("figure", "median (min..max)", "target"), shown))
    importer = max(one.beside.importer_peak_mib for one in result.rounds)
    out.print(Text(f"peak memory: worker {result.worker_peak_mib:.0f} MiB, importer {importer:.0f} MiB"))


def _row(name: str, values: Sequence[float], each: float | None = None, most: int | None = None) -> tuple[str, ...]:
    kilobytes = "" if each is None else f"{each / 1e3:.1f}"
    verdict = ""
    if each is not None and most is not None:
        verdict = f"<= {most / 1e3:g} kB: {'reached' if each <= most else 'NOT reached'}"
    return (name, *(f"{value:.1f}" for value in values), kilobytes, verdict)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default="1000,5000,10000", help="at least two, separated by commas")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--recalls-per-second", type=above_zero, default=10.0)
    parser.add_argument("--quiet-seconds", type=above_zero, default=10.0, help="of quiet recalls in every round")
    parser.add_argument("--portion", type=at_least(1), default=_PORTION, help="imported beside recalls in a round")
    parser.add_argument("--rest", type=float, default=_REST_S, help="seconds before disk and memory are read")
    parser.add_argument("--profile", default="reflect.v1")
    read = parser.parse_args(arguments)
    if len(read.sizes) < 2:
        parser.error("at least two sizes")
    return read


def main() -> None:
    if sys.argv[1:2] == ["importer"]:
        asyncio.run(import_what_is_told(*sys.argv[2:]))
        return
    options = read_options()
    with engines_folder() as folder:
        finish(measure(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
