"""Imports: memories a second, the CPU of each process, and recalls beside an import.

    python -m tests.bench.imports [--size 5000] [--rounds 3] [--recalls-per-second 10] [--json FILE]

Embedded engines, a worker and an importer in processes of their own, synthetic memories. A file of `--size` is
imported alone, until index and graph have it. Then in every round recalls are asked at a steady rate, quiet, and
again while another portion is imported. A recall is asked when its time has come, however late the others are.
Ratios are of one round; the median of the rounds is reported. Disk and memory are measured by `tests.bench.scale`.

It is a measurement, not a test: the exit code is 0 whatever comes out. `python -m tests.bench.imports importer URL
DSN` is the importing side: it imports the files that it is told, one a line on standard input, as `orion-recall
import` does once it has started, and answers each with a line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from orion_recall.cli.output import Table
from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import import_file, wait_for_copies
from orion_recall.postgres.pool import open_pool
from tests.bench.command import above_zero, at_least, engines_folder, finish, parser_of, say
from tests.bench.corpus import corpus
from tests.bench.measure import RestOfMachine, Spread, percentile, tree_cpu_s, tree_peak_memory_mib
from tests.bench.running_worker import module_process, queries_from, worker_process

P95_TARGET = 1.6
_STALLED_S = 120.0
Figures = dict[str, list[float]]
"""What was measured once, or in every round, by its name."""


class Importer:
    """The process that imports, and those whose CPU is counted meanwhile by name."""

    def __init__(self, process: Process, counted: Mapping[str, int], folder: Path) -> None:
        self._process, self._counted, self._folder = process, counted, folder

    async def run(self, memories: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Imports them as one file, until index and graph have them: memories a second, and CPU in ms of each."""
        path = self._folder / "portion.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in memories), "utf-8")
        before = {name: tree_cpu_s(pid) for name, pid in self._counted.items()}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{path}\n".encode())
        await self._process.stdin.drain()
        if not (line := await self._process.stdout.readline()):
            raise RuntimeError("the importer has ended: see the worker's log")
        told = json.loads(line)
        if told["memories"] != len(memories):
            raise RuntimeError(f"{told['memories']} of {len(memories)} memories were new")
        used = {name: tree_cpu_s(pid) - before[name] for name, pid in self._counted.items()}
        return {
            "memories a second": len(memories) / told["seconds"],
            "stored a second": len(memories) / told["stored_seconds"],
            **{f"CPU ms a memory, {name}": spent * 1000 / len(memories) for name, spent in used.items()},
        }


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
    began = time.perf_counter()
    summary = await import_file(partial(client.store, wait_s=0), path)
    stored_s = time.perf_counter() - began
    if summary.position is None or summary.rejected or summary.conflict:
        raise RuntimeError(f"not all of it was stored: {summary.describe()}")
    waited = await wait_for_copies(record.copies, summary.position, stalled_s=_STALLED_S)
    if not waited.caught_up:
        raise RuntimeError(f"index and graph do not move: {waited}")
    return {"memories": summary.stored, "seconds": time.perf_counter() - began, "stored_seconds": stored_s}


async def asked(
    client: RecallClient, queries: Iterator[RecallQueryV1], per_s: float, ended: Callable[[], bool]
) -> dict[str, float]:
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
    return {
        "recall p50 ms": percentile(answered, 0.5) * 1000,
        "recall p95 ms": percentile(answered, 0.95) * 1000,
        "recalls unanswered": len(taken_s) - len(answered),
    }


async def measure(options: argparse.Namespace, folder: Path) -> Figures:
    """An import alone, then the rounds with recalls."""
    told = corpus(options.size + options.rounds * options.portion, now=time.time())
    queries = queries_from(told.recent_sessions, options.profile)
    found: Figures = defaultdict(list)

    def note(figures: Mapping[str, float], when: str) -> None:
        for name, value in figures.items():
            found[f"{name}, {when}"].append(value)

    async with contextlib.AsyncExitStack() as stack:
        engines = await stack.enter_async_context(EmbeddedEngines.start(folder / "data"))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, folder / "data", log))
        line = ("importer", engines.redis_url, engines.postgres_dsn)
        importing = module_process("tests.bench.imports", *line, log=log, stdin=PIPE)
        process = await stack.enter_async_context(importing)
        servers = {name: engines.pids[name] for name in ("valkey", "postgres")}
        importer = Importer(process, {"worker": worker.pid, "importer": process.pid} | servers, folder)
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        # From the newest on, so that the sessions that are asked from are there.
        left = told.memories[::-1]
        say(f"{options.size:,} memories")
        note(await importer.run(left[: options.size]), "alone")
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}: {options.portion:,} memories beside recalls")
            first, rest = options.size + number * options.portion, RestOfMachine()
            until, rate = time.perf_counter() + options.quiet_seconds, options.recalls_per_second
            quiet = await asked(client, queries, rate, lambda until=until: time.perf_counter() >= until)
            task = asyncio.create_task(importer.run(left[first : first + options.portion]))
            during = await asked(client, queries, rate, task.done)
            note(quiet, "quiet")
            note(during, "beside an import")
            note(await task, "beside recalls")
            found["recall p95 beside an import / quiet"].append(during["recall p95 ms"] / quiet["recall p95 ms"])
            found["rest of the machine busy, %"].append(rest.busy_share() * 100)
        found["peak memory, MiB: worker"].append(tree_peak_memory_mib(worker.pid))
    return found


def print_report(result: Figures, out: Console) -> None:
    """Every figure: its median over the rounds, and its range."""
    rows = [(name, str(Spread.of(values))) for name, values in result.items()]
    out.print(Table(("figure", "median (min..max)"), rows))
    ratio = percentile(result["recall p95 beside an import / quiet"], 0.5)
    out.print(f"beside an import at most {P95_TARGET} of quiet: {'' if ratio <= P95_TARGET else 'NOT '}reached")


def main() -> None:
    if sys.argv[1:2] == ["importer"]:
        asyncio.run(import_what_is_told(*sys.argv[2:]))
        return
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=at_least(100), default=5000, help="memories that are imported alone")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--recalls-per-second", type=above_zero, default=10.0)
    parser.add_argument("--quiet-seconds", type=above_zero, default=10.0, help="of quiet recalls in every round")
    parser.add_argument("--portion", type=at_least(1), default=1000, help="imported beside recalls in a round")
    parser.add_argument("--profile", default="reflect.v1")
    options = parser.parse_args()
    with engines_folder() as folder:
        finish(measure(options, folder), show=print_report, as_json=dict, file=options.json)


if __name__ == "__main__":
    main()
