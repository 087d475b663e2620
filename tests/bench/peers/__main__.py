"""This system beside others that find memories, interleaved in one run.

    python -m tests.bench.peers [--size 1000] [--rounds 3] [--seconds-per-cell 3] [--only NAME] [--json FILE]

The same memories and the same questions in the same order, ten memories asked for, MiniLM on one thread everywhere.
Each system is in a process of its own, and is asked as its users ask it: ours over the bus, a library in its
process, a server by HTTP. Every round measures all of them, in turns first, one question at a time and 8 in flight.
Then the golden set, so that speed is not all: how much of what answers is among the first 5 and 10 of each.

A peer that cannot be opened is skipped, with the reason. `make bench-peers` makes their environments first.
It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from orion_recall.cli.output import Table
from orion_recall.evaluation.measures import Mean
from tests.bench.command import at_least, engines_folder, finish, parser_of, say, seconds_so_far
from tests.bench.corpus import corpus
from tests.bench.measure import QUIET_BUSY_SHARE, RestOfMachine, percentile
from tests.bench.peers.serve import KINDS
from tests.bench.peers.systems import CannotMeasure, K, System, filled_peer, open_ours, recall_on
from tests.bench.running_worker import Cell

IN_FLIGHT = (1, 8)
_ALONE, _TOGETHER = IN_FLIGHT
_FIGURES: Sequence[tuple[str, int, Callable[[Cell], float]]] = (
    ("p50 ms", _ALONE, lambda cell: cell.p50_ms),
    ("p95 ms", _ALONE, lambda cell: cell.p95_ms),
    ("CPU ms", _ALONE, lambda cell: sum(cell.cpu_ms.values())),
    ("p50 ms, 8 at once", _TOGETHER, lambda cell: cell.p50_ms),
    ("p95 ms", _TOGETHER, lambda cell: cell.p95_ms),
    ("recalls/s", _TOGETHER, lambda cell: cell.per_s),
    ("CPU ms", _TOGETHER, lambda cell: sum(cell.cpu_ms.values())),
)
_COLUMNS = (
    "system", "asked by", *(name for name, _, _ in _FIGURES), "memory MiB", "filled in s", "recall@5", "recall@10",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Measured:
    """One system: the cells of every round by questions in flight, its memory, and its recall by depth."""

    shown: str
    way: str
    versions: Mapping[str, str]
    fill_s: float
    rounds: list[dict[int, Cell]] = field(default_factory=list[dict[int, Cell]])
    memory_mib: float = 0.0
    recall: Mapping[int, Mean] = field(default_factory=dict[int, Mean])


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All systems, ours first, and why others were skipped. `rest_busy` is the share that others used, by round."""

    size: int
    k: int
    measured: Sequence[Measured]
    skipped: Mapping[str, str]
    rest_busy: Sequence[float]
    seconds: float


async def run(options: argparse.Namespace, folder: Path) -> Comparison:
    """All systems filled, one after another; then the rounds; then the golden set."""
    memories, skipped = corpus(options.size, now=time.time()), dict[str, str]()
    async with contextlib.AsyncExitStack() as stack:
        say(f"orion-recall: {options.size:,} memories")
        systems: list[System] = [
            await stack.enter_async_context(open_ours(memories, options.profile, folder / "ours"))
        ]
        for name in options.only or KINDS:
            say(f"{KINDS[name].shown}: {options.size:,} memories")
            with _left_out(KINDS[name].shown, skipped):
                systems.append(await filled_peer(stack, name, memories, folder / name))
        taking = [
            (one, Measured(shown=one.shown, way=one.way, versions=one.versions, fill_s=one.fill_s))
            for one in systems
        ]
        rest_busy = [await _round(taking, number, options, skipped) for number in range(options.rounds)]
        for system, one in taking:
            say(f"{one.shown}: the golden set")
            with _left_out(one.shown, skipped):
                one.recall = await recall_on(system)
        return Comparison(
            size=options.size,
            k=K,
            measured=[one for _, one in taking if one.recall],
            skipped=skipped,
            rest_busy=rest_busy,
            seconds=seconds_so_far(),
        )


@contextlib.contextmanager
def _left_out(shown: str, skipped: dict[str, str]) -> Generator[None]:
    """A system that cannot be measured is left out; the others go on."""
    try:
        yield
    except CannotMeasure as error:
        say(f"{shown} is left out: {error}")
        skipped[shown] = str(error)


async def _round(
    taking: list[tuple[System, Measured]], number: int, options: argparse.Namespace, skipped: dict[str, str]
) -> float:
    """One round; the next system is first in each. Returns how busy the rest of the machine was."""
    say(f"round {number + 1} of {options.rounds}")
    rest = RestOfMachine()
    for _, one in taking:
        one.rounds.append({})
    for in_flight in IN_FLIGHT:
        first = number % len(taking)
        for system, one in taking[first:] + taking[:first]:
            with _left_out(one.shown, skipped):
                one.rounds[-1][in_flight] = await system.cell(in_flight, options.seconds_per_cell)
                one.memory_mib = max(one.memory_mib, system.memory_mib())
        taking[:] = [pair for pair in taking if in_flight in pair[1].rounds[-1]]
    return rest.busy_share()


def as_json(result: Comparison) -> dict[str, Any]:
    return asdict(result)


def print_report(result: Comparison, out: Console) -> None:
    """One row a system, medians of the rounds; under the table versions, who was skipped, and how busy it was."""
    out.print(Text(f"{result.size:,} memories, {result.k} asked for, {len(result.rest_busy)} rounds"))
    rows = [_row(one) for one in result.measured]
    rows += [(shown, "skipped", *("-" for _ in _COLUMNS[2:])) for shown in result.skipped]
    out.print(Table(_COLUMNS, rows))
    for one in result.measured:
        versions = ", ".join(f"{name} {version}" for name, version in one.versions.items())
        failed = sum(cell.unanswered for cells in one.rounds for cell in cells.values())
        out.print(Text(f"{one.shown}: {versions}" + (f"; {failed} questions failed" if failed else "")))
    for shown, reason in result.skipped.items():
        out.print(Text(f"{shown} was skipped: {reason}"))
    if max(result.rest_busy, default=0.0) >= QUIET_BUSY_SHARE:
        share = percentile(result.rest_busy, 0.5)
        told = f"the rest of the machine used {share:.0%} of it (median): compare wall times within this run only"
        out.print(Text(told))


def _row(one: Measured) -> tuple[str, ...]:
    medians = [
        percentile([figure(cells[in_flight]) for cells in one.rounds], 0.5) for _, in_flight, figure in _FIGURES
    ]
    return (
        one.shown,
        one.way,
        *(f"{median:.1f}" for median in medians),
        f"{one.memory_mib:,.0f}",
        f"{one.fill_s:.0f}",
        *(f"{mean.mean:.3f}" for _, mean in sorted(one.recall.items())),
    )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, rounds=3)
    parser.add_argument("--size", type=at_least(100), default=1000, help="memories")
    parser.add_argument("--only", action="append", choices=tuple(KINDS), help="this peer; may be repeated")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    with engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
