"""Recalls against their lower bounds (floors), interleaved in one run.

    python -m tests.bench.bench [--sizes 1000,10000] [--rounds 4] [--seconds-per-cell 3] [--json FILE]

For every size: embedded engines, a worker in a process of its own and synthetic memories stored over the bus.
Every round measures, size by size, the floors (the bus between two idle processes, each engine called directly on a
copy of the worker's data, our own stages alone) and then recalls with questions that are never repeated: one at a
time, 8 and 32 in flight. Ratios are computed within a round; the median of the rounds is reported. Wall times count
only in rounds in which the rest of the machine was quiet; CPU always counts.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from orion_recall.models.int8 import Int8Encoder
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.postgres.pool import open_connection
from orion_recall.settings import Settings
from tests.bench.bus_floor import bus_floor
from tests.bench.command import engines_folder, finish, parser_of, say, seconds_so_far, sizes
from tests.bench.engine_floors import BUS, BUS_TOGETHER
from tests.bench.measure import RestOfMachine, peak_memory_mib, tree_memory_mib, tree_peak_memory_mib
from tests.bench.ratios import SizeRound
from tests.bench.recall_load import BUS as VALKEY
from tests.bench.recall_load import CLIENT, RECORD, WORKER, recall_cell
from tests.bench.report import Result, SizeResult, as_json, print_report
from tests.bench.running_worker import Setup, open_setup

IN_FLIGHT = (1, 8, 32)
_BUS_REQUESTS = 1000


async def measure_round(setup: Setup, seconds: float) -> tuple[SizeRound, float]:
    """Floors, then recalls one at a time and concurrently; and Postgres's memory under the last of them, in MiB."""
    rest = RestOfMachine()
    bus = await bus_floor(setup.engines.redis_url, setup.echo_pid, request=setup.request, rounds=_BUS_REQUESTS)
    floors = {BUS: bus.alone, BUS_TOGETHER: bus.together} | await setup.floors.measure()
    stages = setup.stages.measure()
    alone = await recall_cell(setup, IN_FLIGHT[0], seconds)
    rest_busy = rest.busy_share()
    others = [await recall_cell(setup, in_flight, seconds) for in_flight in IN_FLIGHT[1:]]
    measured = SizeRound(
        size=setup.size,
        floors=floors,
        stages_cpu_ms=stages,
        cells={cell.in_flight: cell for cell in (alone, *others)},
        rest_busy=rest_busy,
    )
    return measured, tree_memory_mib(setup.engines.pids["postgres"])


async def run(options: argparse.Namespace, folder: Path) -> Result:
    """Measures all sizes in every round, so that they see the same load of the machine."""
    encoder = await asyncio.to_thread(lambda: Int8Encoder(find_weights(path=Settings.read().model_path)))
    async with contextlib.AsyncExitStack() as stack:
        setups: list[Setup] = []
        for size in options.sizes:
            say(f"{size:,} memories: engines, import, copies")
            setup = open_setup(size, options.profile, folder / str(size), encoder, say)
            setups.append(await stack.enter_async_context(setup))
        # The objects made so far are not measured: the garbage collector need not scan them again.
        gc.collect()
        gc.freeze()
        rounds: dict[int, list[SizeRound]] = {setup.size: [] for setup in setups}
        postgres_mib = dict.fromkeys(rounds, 0.0)
        for number in range(options.rounds):
            for setup in setups:
                say(f"round {number + 1} of {options.rounds}: {setup.size:,} memories")
                measured, memory = await measure_round(setup, options.seconds_per_cell)
                rounds[setup.size].append(measured)
                postgres_mib[setup.size] = max(postgres_mib[setup.size], memory)
        measured_sizes = [
            await _size_result(setup, rounds[setup.size], postgres_mib[setup.size]) for setup in setups
        ]
    return Result(
        machine={
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "Python": platform.python_version(),
        },
        settings={
            "profile": options.profile,
            "rounds": options.rounds,
            "seconds per cell": options.seconds_per_cell,
            "worker concurrency": Settings.read().concurrency,
        },
        seconds=seconds_so_far(),
        sizes=measured_sizes,
    )


async def _size_result(setup: Setup, rounds: Sequence[SizeRound], postgres_mib: float) -> SizeResult:
    connection = await open_connection(setup.engines.postgres_dsn, name="bench", statement_timeout_ms=30_000)
    try:
        outcomes = await connection.fetch(
            "SELECT outcome AS name, count(*) AS count FROM recall_decisions GROUP BY outcome ORDER BY count DESC"
        )
        silent = await connection.fetch(
            "SELECT source.key AS name, count(*) AS count FROM recall_decisions, jsonb_each(sources) AS source "
            "WHERE source.value->>'status' IN ('late', 'failed') GROUP BY source.key ORDER BY source.key"
        )
    finally:
        await connection.close()
    return SizeResult(
        size=setup.size,
        imported=setup.imported,
        rounds=rounds,
        peak_mib={
            WORKER: tree_peak_memory_mib(setup.worker_pid),
            VALKEY: peak_memory_mib(setup.engines.pids["valkey"]),
            RECORD: postgres_mib,
            CLIENT: peak_memory_mib(os.getpid()),
        },
        outcomes={row["name"]: row["count"] for row in outcomes},
        silent={row["name"]: row["count"] for row in silent},
    )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default="1000,10000", help="memories, separated by commas")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds-per-cell", type=float, default=3.0)
    parser.add_argument("--profile", default="reflect.v1")
    read = parser.parse_args(arguments)
    if read.rounds < 1 or read.seconds_per_cell <= 0:
        parser.error("at least one round, and seconds above 0")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    with engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
