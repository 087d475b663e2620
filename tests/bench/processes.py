"""One worker against several processes: recalls a second, latency, CPU and memory, in turns.

    python -m tests.bench.processes [--size 5000] [--processes 1,2] [--rounds 3] [--seconds 8] [--json FILE]

Embedded engines, and synthetic memories stored over the bus. In every round each number of processes is started
anew on the same data, asked questions that are never repeated, and measured: so all meet the same load of the
machine, and the order is turned round from round to round. The rate of several over that of one is computed within
a round; the median is reported. A start with fewer deletes the files of the others, one with more copies
them again: that is part of the seconds until it is ready.

Memory is that of each worker after its recalls: what it has for itself (USS), its share of what it has with others
(PSS), and all that is resident. Mapped files of its own index are in all three; the kernel can take those back.

It is a measurement, not a test: the exit code is 0 whatever comes out. Rates need a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from orion_recall.cli.output import table
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from tests.bench.command import engines_folder, finish, parser_of, say
from tests.bench.corpus import Corpus, corpus
from tests.bench.measure import RestOfMachine, Spread, percentile
from tests.bench.recall_load import BUS as VALKEY
from tests.bench.recall_load import RECORD, WORKER, Cell, recall_cell
from tests.bench.running_worker import Imported, RunningWorker, import_all, queries_from, worker_process

_MIB = 1 << 20
_WARM_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of one process, in MiB: its own, its share of what is shared, all that is resident."""

    uss: float
    pss: float
    rss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One number of processes in one round. `parent` is None where the worker is alone."""

    processes: int
    cell: Cell
    workers: Sequence[Memory]
    parent: Memory | None
    ready_s: float
    rest_busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured: a round is one turn of each number of processes."""

    size: int
    cores: int
    in_flight: int
    rounds: Sequence[Sequence[Turn]]

    @property
    def counts(self) -> list[int]:
        """The numbers of processes, the smallest first."""
        return sorted(turn.processes for turn in self.rounds[0])

    def of(self, processes: int) -> list[Turn]:
        """The turns of that number of processes."""
        return [turn for turns in self.rounds for turn in turns if turn.processes == processes]

    def gains(self, processes: int) -> list[float]:
        """Recalls a second over those of the fewest processes in the same round."""
        least = self.counts[0]
        per_s = [{turn.processes: turn.cell.per_s for turn in turns} for turns in self.rounds]
        return [rates[processes] / rates[least] for rates in per_s]


async def measure(options: argparse.Namespace, folder: Path) -> Found:
    """Fills the stores, then measures round by round."""
    told = corpus(options.size, now=time.time())
    data = folder / "data"
    async with EmbeddedEngines.start(data, workers=max(options.processes)) as engines:
        with (folder / "worker.log").open("ab") as log:
            async with worker_process(engines, data, log) as filling:
                imported = await import_all(engines, told, filling.pid, say)
            rounds: list[list[Turn]] = []
            for number in range(options.rounds):
                order = options.processes if number % 2 == 0 else options.processes[::-1]
                turns = [await _turn(engines, data, log, told, imported, count, options) for count in order]
                rounds.append(turns)
                rates = ", ".join(f"{turn.processes}: {turn.cell.per_s:.0f}/s" for turn in turns)
                say(f"round {number + 1} of {options.rounds}: {rates}")
    return Found(size=options.size, cores=os.cpu_count() or 1, in_flight=options.in_flight, rounds=rounds)


async def _turn(
    engines: EmbeddedEngines,
    data: Path,
    log: Any,
    told: Corpus,
    imported: Imported,
    count: int,
    options: argparse.Namespace,
) -> Turn:
    began = time.perf_counter()
    async with (
        worker_process(engines, data, log, processes=count) as started,
        RecallClient.connect(engines.redis_url, service="bench") as client,
    ):
        ready_s = time.perf_counter() - began
        running = RunningWorker(
            size=options.size,
            engines=engines,
            worker_pid=started.pid,
            client=client,
            queries=queries_from(told.recent_sessions, options.profile),
            imported=imported,
        )
        await recall_cell(running, options.in_flight, _WARM_S)
        rest = RestOfMachine()
        cell = await recall_cell(running, options.in_flight, options.seconds)
        parent = psutil.Process(started.pid)
        below = parent.children() if count > 1 else [parent]
        return Turn(
            processes=count,
            cell=cell,
            workers=[_memory(one) for one in below],
            parent=_memory(parent) if count > 1 else None,
            ready_s=ready_s,
            rest_busy=rest.busy_share(),
        )


def _memory(process: psutil.Process) -> Memory:
    told = process.memory_full_info()
    return Memory(uss=told.uss / _MIB, pss=getattr(told, "pss", told.rss) / _MIB, rss=told.rss / _MIB)


def show(found: Found, console: Console) -> None:
    """The tables."""
    head = f"{found.size:,} memories, {found.in_flight} recalls in flight, {found.cores} cores"
    rows = [_row(found, count) for count in found.counts]
    columns = ("processes", "recalls/s", "times", "p50 ms", "p95 ms", "CPU ms a recall: workers", "bus", "Postgres")
    console.print(table((*columns, "unanswered", "rest of the machine"), rows, title=head))
    memory = [row for count in found.counts for row in _memory_rows(found.of(count))]
    console.print(table(("processes", "", "USS MiB", "PSS MiB", "RSS MiB", "ready after s"), memory))


def _row(found: Found, count: int) -> tuple[str, ...]:
    turns = found.of(count)
    gain = Spread.of(found.gains(count))
    assert gain is not None

    def median(values: Sequence[float]) -> str:
        return f"{percentile(values, 0.5):.1f}"

    return (
        str(count),
        median([turn.cell.per_s for turn in turns]),
        f"{gain.median:.2f} ({gain.low:.2f} to {gain.high:.2f})",
        median([turn.cell.p50_ms for turn in turns]),
        median([turn.cell.p95_ms for turn in turns]),
        *(median([turn.cell.cpu_ms[name] for turn in turns]) for name in (WORKER, VALKEY, RECORD)),
        str(sum(turn.cell.unanswered for turn in turns)),
        f"{100 * percentile([turn.rest_busy for turn in turns], 0.5):.0f}%",
    )


def _memory_rows(turns: Sequence[Turn]) -> list[tuple[str, ...]]:
    first = turns[0]
    named: dict[str, list[Memory]] = {
        f"worker {place + 1}": [turn.workers[place] for turn in turns] for place in range(len(first.workers))
    }
    parents = [turn.parent for turn in turns if turn.parent is not None]
    if parents:
        named["parent"] = parents
    ready = f"{percentile([turn.ready_s for turn in turns], 0.5):.1f}"
    return [
        (
            str(first.processes),
            name,
            *(f"{percentile([getattr(one, kind) for one in each], 0.5):.0f}" for kind in ("uss", "pss", "rss")),
            ready,
        )
        for name, each in named.items()
    ]


def as_json(found: Found) -> dict[str, Any]:
    """Everything, with the gains."""
    gains: Mapping[str, list[float]] = {str(count): found.gains(count) for count in found.counts}
    return asdict(found) | {"gains": gains}


def _counts(text: str) -> list[int]:
    found = sorted({int(count) for count in text.split(",")})
    if found[0] < 1:
        raise argparse.ArgumentTypeError("numbers of processes from 1")
    return found


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=int, default=5000, help="memories")
    parser.add_argument("--processes", type=_counts, default=[1, 2], metavar="1,2", help="numbers of processes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of recalls in each turn")
    parser.add_argument("--in-flight", type=int, default=16, help="recalls at once")
    parser.add_argument("--profile", default="reflect.v1")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    options = read_options(arguments)
    with engines_folder() as folder:
        finish(measure(options, folder), show=show, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
