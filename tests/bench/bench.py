"""Recalls against their lower bounds (floors), interleaved in one run.

    python -m tests.bench.bench [--sizes 1000,10000] [--rounds 4] [--seconds-per-cell 3] [--json FILE]

For every size: embedded engines, a worker in a process of its own and synthetic memories stored over the bus.
Before the first round the background work of the workers is waited for, and the report says what it was. Every
round measures, size by size, the floors (the bus between two idle processes, each engine called directly on a copy
of the worker's data) and then recalls with questions that are never repeated: one at a time, 8 and 32 in flight.
Ratios are computed within a round; the median of the rounds is reported. Wall times count only in rounds in which
the rest of the machine was quiet; CPU always counts.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import os
import platform
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from rich.console import Console
from rich.text import Text

from orion_recall.cli.output import Table
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.embedder import Encoder
from orion_recall.models.int8 import Int8Encoder
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.postgres.pool import close_connection, open_connection
from orion_recall.settings import Settings
from tests.bench.background import Waited, settled
from tests.bench.bus_floor import bus_floor
from tests.bench.command import engines_folder, finish, parser_of, say, seconds_so_far, sizes
from tests.bench.corpus import corpus
from tests.bench.engine_floors import BUS, BUS_TOGETHER, CPU_SUM, WALL_SUM, Asked, EngineFloors, recorded
from tests.bench.measure import (
    QUIET_BUSY_SHARE,
    Cost,
    RestOfMachine,
    Spread,
    peak_memory_mib,
    tree_memory_mib,
    tree_peak_memory_mib,
)
from tests.bench.running_worker import BUS as VALKEY
from tests.bench.running_worker import (
    CLIENT,
    RECORD,
    WORKER,
    Cell,
    Imported,
    RunningWorker,
    filled_worker,
    module_process,
    queries_from,
    recall_cell,
)

IN_FLIGHT = (1, 8, 32)
P50_TARGET = 2.0
FLOOR_QUESTIONS, BUS_REQUESTS = 128, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One size, ready to be measured with its floors."""

    worker: RunningWorker
    echo_pid: int
    floors: EngineFloors
    encoder: Encoder
    request: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of one size: floors, cells by recalls in flight; how busy the rest of the machine was meanwhile."""

    floors: Mapping[str, Cost]
    cells: Mapping[int, Cell]
    rest_busy: float

    @property
    def quiet(self) -> bool:
        """Whether wall times of this round count."""
        return self.rest_busy < QUIET_BUSY_SHARE

    @property
    def wall_sum_ms(self) -> float:
        """What one recall would take if nothing but the engines and the bus took time, one after another."""
        return sum(self.floors[name].p50_ms for name in WALL_SUM if name in self.floors)

    @property
    def cpu_sum_ms(self) -> float:
        """The CPU that one recall of many would need if nothing but these took any."""
        return sum(self.floors[name].cpu_ms for name in CPU_SUM if name in self.floors)

    @property
    def last(self) -> Cell:
        """That with the most in flight."""
        return self.cells[max(self.cells)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult:
    """Everything of one size. `peak_mib` is by process; `outcomes` and `silent` are from the decision log."""

    size: int
    imported: Imported
    rounds: Sequence[Round]
    peak_mib: Mapping[str, float]
    outcomes: Mapping[str, int]
    silent: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: on what, with what, what was waited for, and every size from the smallest."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    waited: Sequence[Waited]
    sizes: Sequence[SizeResult]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio over the rounds that count (None: none of them does). `target` is what it may be at most."""

    name: str
    spread: Spread | None
    counted: int
    target: float | None = None

    @classmethod
    def of(cls, name: str, values: Sequence[float], target: float | None = None) -> Ratio:
        return cls(name=name, spread=Spread.of(values), counted=len(values), target=target)

    @property
    def verdict(self) -> str:
        """Whether the target is reached; empty without one."""
        if self.target is None:
            return ""
        if self.spread is None:
            return f"<= {self.target:g}: not judged, no quiet round"
        return f"<= {self.target:g}: {'reached' if self.spread.median <= self.target else 'NOT reached'}"


@contextlib.asynccontextmanager
async def open_setup(size: int, profile: str, folder: Path, encoder: Encoder) -> AsyncGenerator[Setup]:
    """Engines started, memories imported, a copy taken for the floors, and a new worker for the recalls."""
    now, data, copy = time.time(), folder / "data", folder / "copy"
    told = corpus(size, now=now)
    asked: list[Asked] = []

    async def record_questions(engines: EmbeddedEngines) -> None:
        for part in ("index", "graph"):
            await asyncio.to_thread(shutil.copytree, data / part, copy / part)
        settings = Settings.read(
            redis_url=SecretStr(engines.redis_url), postgres_dsn=SecretStr(engines.postgres_dsn), data_dir=copy
        )
        # Other questions than those of the recalls.
        queries = queries_from(told.recent_sessions, profile, seed=13)
        asked.extend(await recorded(settings, profile, list(itertools.islice(queries, FLOOR_QUESTIONS)), now))

    async with contextlib.AsyncExitStack() as stack:
        filled = filled_worker(told, profile, data, then=record_questions)
        worker = await stack.enter_async_context(filled)
        floors = await stack.enter_async_context(EngineFloors.open(copy, worker.engines.postgres_dsn, asked))
        log = stack.enter_context((folder / "worker.log").open("ab"))
        echoing = module_process("tests.bench.bus_floor", worker.engines.redis_url, log=log)
        echo = await stack.enter_async_context(echoing)
        request = asked[0].envelope
        yield Setup(worker=worker, echo_pid=echo.pid, floors=floors, encoder=encoder, request=request)


async def measure_round(setup: Setup, seconds: float) -> tuple[Round, float]:
    """Floors, then recalls one at a time and concurrently; and Postgres's memory under the last of them, in MiB."""
    rest, worker = RestOfMachine(), setup.worker
    floors = {
        name: await bus_floor(
            worker.engines.redis_url,
            setup.echo_pid,
            request=setup.request,
            rounds=BUS_REQUESTS,
            in_flight=in_flight,
        )
        for name, in_flight in ((BUS, 1), (BUS_TOGETHER, IN_FLIGHT[-1]))
    } | await setup.floors.measure(setup.encoder)
    cells = {IN_FLIGHT[0]: await recall_cell(worker, IN_FLIGHT[0], seconds)}
    rest_busy = rest.busy_share()
    for in_flight in IN_FLIGHT[1:]:
        cells[in_flight] = await recall_cell(worker, in_flight, seconds)
    memory_mib = tree_memory_mib(worker.engines.pids["postgres"])
    return Round(floors=floors, cells=cells, rest_busy=rest_busy), memory_mib


async def run(options: argparse.Namespace, folder: Path) -> Result:
    """Measures all sizes in every round, so that they see the same load of the machine."""
    encoder = await asyncio.to_thread(lambda: Int8Encoder(find_weights(path=Settings.read().model_path)))
    async with contextlib.AsyncExitStack() as stack:
        setups: list[Setup] = []
        for size in options.sizes:
            say(f"{size:,} memories: engines, import, copies")
            setup = open_setup(size, options.profile, folder / str(size), encoder)
            setups.append(await stack.enter_async_context(setup))
        waited = await settled([setup.worker for setup in setups])
        # The objects made so far are not measured: the garbage collector need not scan them again.
        gc.collect()
        gc.freeze()
        found: list[list[tuple[Round, float]]] = [[] for _ in setups]
        for number in range(options.rounds):
            for setup, rounds in zip(setups, found, strict=True):
                say(f"round {number + 1} of {options.rounds}: {setup.worker.size:,} memories")
                rounds.append(await measure_round(setup, options.seconds_per_cell))
        measured = [await _size_result(setup.worker, rounds) for setup, rounds in zip(setups, found, strict=True)]
    return Result(
        machine={"cores": os.cpu_count(), "machine": platform.machine(), "Python": platform.python_version()},
        settings={
            "profile": options.profile,
            "rounds": options.rounds,
            "seconds per cell": options.seconds_per_cell,
            "worker concurrency": Settings.read().concurrency,
        },
        waited=waited,
        sizes=measured,
        seconds=seconds_so_far(),
    )


async def _size_result(worker: RunningWorker, rounds: Sequence[tuple[Round, float]]) -> SizeResult:
    connection = await open_connection(worker.engines.postgres_dsn, name="bench", statement_timeout_ms=30_000)
    try:
        outcomes = await connection.fetch(
            "SELECT outcome, count(*) FROM recall_decisions GROUP BY 1 ORDER BY 2 DESC"
        )
        silent = await connection.fetch(
            "SELECT source.key, count(*) FROM recall_decisions, jsonb_each(sources) AS source "
            "WHERE source.value->>'status' IN ('late', 'failed') GROUP BY 1 ORDER BY 1"
        )
    finally:
        await close_connection(connection)
    return SizeResult(
        size=worker.size,
        imported=worker.imported,
        rounds=[one for one, _ in rounds],
        peak_mib={
            WORKER: tree_peak_memory_mib(worker.worker_pid),
            VALKEY: peak_memory_mib(worker.engines.pids["valkey"]),
            RECORD: max(memory for _, memory in rounds),
            CLIENT: peak_memory_mib(os.getpid()),
        },
        outcomes={row[0]: row[1] for row in outcomes},
        silent={row[0]: row[1] for row in silent},
    )


def ratios(rounds: Sequence[Round]) -> list[Ratio]:
    """The ratios of one size; those of wall times over quiet rounds alone."""
    last = max(rounds[0].cells)
    wall = [one.cells[min(one.cells)].p50_ms / one.wall_sum_ms for one in rounds if one.quiet]
    cpu = [one.last.cpu_ms[WORKER] / one.cpu_sum_ms for one in rounds]
    loop = [one.last.loop_ms / one.last.cpu_ms[WORKER] for one in rounds]
    return [
        Ratio.of("p50 one at a time / sum of the wall floors", wall, P50_TARGET),
        Ratio.of(f"worker CPU, {last} in flight / CPU of the floors", cpu),
        Ratio.of(f"the loop's share of the worker's CPU, {last} in flight", loop),
    ]


def growth(small: SizeResult, large: SizeResult) -> list[Ratio]:
    """How the largest size compares with the smallest, round by round."""
    figures: Mapping[str, Callable[[Round], float]] = {
        "worker CPU": lambda one: one.last.cpu_ms[WORKER],
        "CPU of all processes": lambda one: sum(one.last.cpu_ms.values()),
        "CPU of the floors": lambda one: one.cpu_sum_ms,
    }
    pairs = list(zip(small.rounds, large.rounds, strict=True))
    which = f"{large.size:,} memories against {small.size:,}"
    return [
        Ratio.of(f"{what}, {which}", [of(after) / of(before) for before, after in pairs])
        for what, of in figures.items()
    ]


def as_json(result: Result) -> dict[str, Any]:
    return asdict(result) | {
        "wall_sum_of": WALL_SUM,
        "cpu_sum_of": CPU_SUM,
        "ratios": {size.size: [asdict(one) for one in ratios(size.rounds)] for size in result.sizes},
        "growth": [asdict(one) for one in growth(result.sizes[0], result.sizes[-1])],
    }


def print_report(result: Result, out: Console) -> None:
    """Tables of each size: floors, recalls, ratios."""
    for told in (result.machine, result.settings):
        out.print(Text(", ".join(f"{name} {value}" for name, value in told.items())))
    for one in result.waited:
        out.print(Text(f"waited before for {one}"))
    for size in result.sizes:
        out.print(Text(f"\n{size.size:,} memories, imported in {size.imported.seconds:.0f} s", style="bold"))
        for shown in (_floors(size.rounds), _recalls(size), _ratios(ratios(size.rounds))):
            out.print(shown)
            out.print()
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in size.outcomes.items())
        silent = ", ".join(f"{source}: {count}" for source, count in size.silent.items()) or "none"
        out.print(Text(f"decisions: {outcomes}; late or failed sources: {silent}", style="dim"))
    if len(result.sizes) > 1:
        out.print(_ratios(growth(result.sizes[0], result.sizes[-1])))
    out.print(Text(f"{result.seconds:.0f} s in all; a round is quiet under {QUIET_BUSY_SHARE:.0%} of others' load"))


def _floors(rounds: Sequence[Round]) -> object:
    rows = [
        (
            name,
            *(
                _median([getattr(one.floors[name], figure) for one in rounds])
                for figure in ("p50_ms", "p95_ms", "cpu_ms")
            ),
            " and ".join(what for what, names in (("wall", WALL_SUM), ("CPU", CPU_SUM)) if name in names) or "-",
        )
        for name in rounds[0].floors
    ]
    return Table(("floor, median of the rounds", "p50 ms", "p95 ms", "CPU ms", "in the sum of"), rows)


def _recalls(size: SizeResult) -> object:
    figures: Mapping[str, Callable[[Cell], float]] = {
        "p50 ms": lambda cell: cell.p50_ms,
        "p95 ms": lambda cell: cell.p95_ms,
        "per s": lambda cell: cell.per_s,
        **{
            f"CPU ms: {name}": lambda cell, name=name: cell.cpu_ms[name]
            for name in (WORKER, VALKEY, RECORD, CLIENT)
        },
        "loop": lambda cell: cell.loop_ms,
    }
    rows: list[tuple[str, ...]] = []
    for in_flight in IN_FLIGHT:
        cells = [one.cells[in_flight] for one in size.rounds]
        unanswered = sum(cell.unanswered for cell in cells)
        medians = [_median([of(cell) for cell in cells]) for of in figures.values()]
        rows.append((f"{in_flight}", *medians, f"{unanswered}"))
    peaks = {f"CPU ms: {name}": f"{mib:.0f}" for name, mib in size.peak_mib.items()}
    rows.append(("peak memory, MiB", *(peaks.get(name, "") for name in figures), ""))
    return Table(("recalls in flight", *figures, "unanswered"), rows)


def _ratios(found: Sequence[Ratio]) -> object:
    return Table(
        ("ratio", "median (min..max)", "rounds", "target"),
        [(one.name, str(one.spread or "none"), str(one.counted), one.verdict) for one in found],
    )


def _median(values: Sequence[float]) -> str:
    spread = Spread.of(values)
    return "-" if spread is None else f"{spread.median:.3g}"


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, rounds=4)
    parser.add_argument("--sizes", type=sizes, default="1000,10000", help="memories, separated by commas")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    with engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
