"""Imports against their lower bounds (floors), alone and beside recalls, interleaved in one run.

    python -m tests.bench.imports [--memories 20000] [--rounds 4] [--recalls-per-second 10] [--json FILE]

Embedded engines, a worker and an importer in processes of their own, synthetic memories. Every round takes two
portions of them. The first goes through the floors, each alone: its texts are embedded, its points put into an
index, its rows copied into Postgres. Then it is imported as a file over the bus, until index and graph have all of
it. Then recalls are asked at a steady rate, quiet; and again while the second portion is imported. A recall is
asked when its time has come, however late the others are. Ratios are those of one round; the median of the rounds
is reported.

At the end two fresh workers import a file and one ten times as large, for the peak memory of worker and importer.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ClientError
from orion_recall.models.int8 import Int8Encoder
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.settings import Settings
from tests.bench.command import engines_folder, finish, parser_of, say
from tests.bench.corpus import corpus
from tests.bench.import_floors import ImportFloors
from tests.bench.import_report import Asked, Import, ImportResult, ImportRound, Peak, as_json, print_report
from tests.bench.measure import RestOfMachine, percentile, tree_cpu_s, tree_peak_memory_mib
from tests.bench.running_worker import queries_from, worker_process

_WARM_UP = 200
_TIMES_LARGER = 10


class Importer:
    """The process that imports, and the worker whose CPU is counted meanwhile."""

    def __init__(self, process: asyncio.subprocess.Process, worker_pid: int, folder: Path) -> None:
        self._process, self._worker_pid, self._folder = process, worker_pid, folder

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, engines: EmbeddedEngines, worker_pid: int, folder: Path) -> AsyncGenerator[Importer]:
        """Started, connected, waiting for files; ended with this block."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.import_child", engines.redis_url, engines.postgres_dsn,
            stdin=PIPE, stdout=PIPE,
        )  # fmt: skip
        try:
            await _line(process)
            yield cls(process, worker_pid, folder)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def run(self, memories: Sequence[Mapping[str, Any]]) -> Import:
        """Imports them as one file; done when index and graph have them."""
        path = self._folder / "portion.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in memories), "utf-8")
        before = tree_cpu_s(self._worker_pid)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path}\n".encode())
        await self._process.stdin.drain()
        told = json.loads(await _line(self._process))
        used = tree_cpu_s(self._worker_pid) - before
        if told["memories"] != len(memories):
            raise RuntimeError(f"{told['memories']} of {len(memories)} memories were new")
        return Import(
            memories=len(memories),
            per_s=len(memories) / told["seconds"],
            stored_per_s=len(memories) / told["stored_seconds"],
            worker_cpu_ms=used * 1000 / len(memories),
            importer_cpu_ms=told["cpu_seconds"] * 1000 / len(memories),
            importer_peak_mib=told["peak_mib"],
        )


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    if not (line := await process.stdout.readline()):
        raise RuntimeError("the importer has ended: see above")
    return line.decode()


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


async def measure_rounds(options: argparse.Namespace, folder: Path) -> ImportResult:
    """All rounds on one set of engines, which fill meanwhile; then the peaks."""
    encoder = await asyncio.to_thread(lambda: Int8Encoder(find_weights(path=Settings.read().model_path)))
    told = corpus(options.memories + _WARM_UP, now=time.time())
    size = options.memories // (2 * options.rounds)
    rounds: list[ImportRound] = []
    async with contextlib.AsyncExitStack() as stack:
        data = folder / "data"
        engines = await stack.enter_async_context(EmbeddedEngines.start(data))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        worker = await stack.enter_async_context(worker_process(engines, data, log))
        importer = await stack.enter_async_context(Importer.start(engines, worker.pid, folder))
        client = await stack.enter_async_context(RecallClient.connect(engines.redis_url, service="bench"))
        floors = await stack.enter_async_context(ImportFloors.open(folder / "floor", encoder, engines.postgres_dsn))
        # The newest, so that the sessions that are asked from are there.
        await importer.run(told.memories[-_WARM_UP:])
        queries = queries_from(told.recent_sessions, options.profile)
        portions = [told.memories[start : start + size] for start in range(0, 2 * options.rounds * size, size)]
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}: {size:,} memories alone, {size:,} beside recalls")
            rest = RestOfMachine()
            floor = await floors.measure(portions[2 * number])
            alone = await importer.run(portions[2 * number])
            until = time.perf_counter() + options.quiet_seconds
            quiet = await asked(
                client, queries, options.recalls_per_second, lambda until=until: time.perf_counter() >= until
            )
            importing = asyncio.create_task(importer.run(portions[2 * number + 1]))
            during = await asked(client, queries, options.recalls_per_second, importing.done)
            rounds.append(
                ImportRound(
                    floors=floor,
                    alone=alone,
                    beside=await importing,
                    quiet=quiet,
                    during=during,
                    rest_busy=rest.busy_share(),
                )
            )
        worker_peak = tree_peak_memory_mib(worker.pid)
    peaks = [
        await _peak(told.memories[: options.small_file * times], folder / f"peak-{times}")
        for times in ((1, _TIMES_LARGER) if options.small_file else ())
    ]
    return ImportResult(
        memories=options.memories,
        recalls_per_s=options.recalls_per_second,
        cores=os.cpu_count() or 1,
        load_average=os.getloadavg(),
        rounds=rounds,
        worker_peak_mib=worker_peak,
        peaks=peaks,
    )


async def _peak(memories: Sequence[Mapping[str, Any]], folder: Path) -> Peak:
    say(f"peak memory with a file of {len(memories):,} memories")
    folder.mkdir(mode=0o711)
    async with EmbeddedEngines.start(folder / "data") as engines:
        with (folder / "worker.log").open("ab") as log:
            async with (
                worker_process(engines, folder / "data", log) as worker,
                Importer.start(engines, worker.pid, folder) as importer,
            ):
                before = tree_peak_memory_mib(worker.pid)
                imported = await importer.run(memories)
                return Peak(
                    memories=len(memories),
                    worker_before_mib=before,
                    worker_mib=tree_peak_memory_mib(worker.pid),
                    importer_mib=imported.importer_peak_mib,
                )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--memories", type=int, default=20_000, help="over all rounds")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--recalls-per-second", type=float, default=10.0)
    parser.add_argument("--quiet-seconds", type=float, default=10.0, help="of quiet recalls in every round")
    parser.add_argument(
        "--small-file", type=int, default=1000, help="memories of the smaller file for peak memory; 0 for no peaks"
    )
    parser.add_argument("--profile", default="reflect.v1")
    read = parser.parse_args(arguments)
    if read.rounds < 1 or read.memories < 200 * read.rounds or read.memories < read.small_file * _TIMES_LARGER:
        parser.error("at least one round, 200 memories a round, and ten times those of the small file")
    if read.recalls_per_second <= 0 or read.quiet_seconds <= 0 or read.small_file < 0:
        parser.error("recalls a second and quiet seconds above 0, and no negative file")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    with engines_folder() as folder:
        finish(measure_rounds(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
