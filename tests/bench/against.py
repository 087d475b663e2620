"""This tree against another revision of it, interleaved in one run.

    python -m tests.bench.against REVISION [--size 1000] [--rounds 4] [--seconds-per-cell 3] [--processes 1]
                                           [--json FILE]

Each of the two has engines, a worker in a process of its own and the same memories, stored over the bus. The other
revision is taken from git into a temporary folder; where it asks for other packages, it gets an environment
of its own.
Before the first round the background work of both is waited for, and the report says what it was.
Every round measures both, in turns first: recalls one at a time, 8 and 32 in flight. A ratio is of one round; the
median of the rounds is reported, with the lowest and the highest. Only one of the two has anything to do at a time.
With `--processes` this tree's worker takes queries in so many processes, and the other's in one; then neither the
event loop's CPU nor peak memory is compared.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.background import Waited, settled
from tests.bench.command import at_least, engines_folder, finish, parser_of, say, seconds_so_far
from tests.bench.corpus import corpus
from tests.bench.measure import QUIET_BUSY_SHARE, RestOfMachine, Spread, tree_peak_memory_mib
from tests.bench.running_worker import WORKER, Cell, RunningWorker, filled_worker, recall_cell

IN_FLIGHT = (1, 8, 32)
_REPOSITORY = Path(__file__).parents[2]
Figure = Callable[[Cell], float]
FIGURES: Mapping[str, Figure] = {
    "p50 ms": lambda cell: cell.p50_ms,
    "p95 ms": lambda cell: cell.p95_ms,
    "recalls/s": lambda cell: cell.per_s,
    "worker CPU ms": lambda cell: cell.cpu_ms[WORKER],
}
OF_ONE_PROCESS: Mapping[str, Figure] = {"of it loop ms": lambda cell: cell.loop_ms}
"""Figures that only a worker in one process has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A revision's files, and the Python that has the packages it asks for."""

    name: str
    folder: Path
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: the cells of this tree and of the other, by recalls in flight."""

    ours: Mapping[int, Cell]
    theirs: Mapping[int, Cell]
    rest_busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rounds; import seconds and peak memory (MiB) of each worker, this tree's first.

    `processes` are those of this tree's worker; with more than one nobody's peak memory is told.
    """

    revision: str
    size: int
    profile: str
    processes: int
    rounds: Sequence[Round]
    waited: Sequence[Waited]
    import_s: tuple[float, float]
    peak_mib: tuple[float, float] | None
    seconds: float

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Those that both workers have."""
        return FIGURES if self.processes > 1 else {**FIGURES, **OF_ONE_PROCESS}


def other_tree(revision: str, folder: Path) -> Tree:
    """The revision's files in the folder, with an environment of its own where its packages are others."""
    name = _git("rev-parse", "--short", f"{revision}^{{commit}}").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", name))) as archive:
        archive.extractall(folder, filter="data")
    if (folder / "pyproject.toml").read_bytes() == (_REPOSITORY / "pyproject.toml").read_bytes():
        return Tree(name=name, folder=folder, python=sys.executable)
    say(f"{name} asks for other packages: they are installed")
    venv.create(folder / ".venv", with_pip=True)
    python = str(folder / ".venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", f"{folder}[embedded]"], check=True)
    return Tree(name=name, folder=folder, python=python)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(_REPOSITORY), *arguments], check=True, stdout=subprocess.PIPE).stdout


@contextlib.asynccontextmanager
async def running(
    tree: Tree, size: int, profile: str, folder: Path, *, processes: int = 1
) -> AsyncGenerator[RunningWorker]:
    """A worker of the tree with its memories, on engines of its own."""
    # Without PYTHONSAFEPATH `python -m` takes the modules of the current folder: this tree's, for both.
    environment = {"PYTHONPATH": str(tree.folder), "PYTHONSAFEPATH": "1"}
    _check_modules(tree, environment)
    told = corpus(size, now=time.time())
    started = filled_worker(
        told, profile, folder / "data", processes=processes, python=tree.python, settings=environment
    )
    async with started as worker:
        yield worker


def _check_modules(tree: Tree, environment: Mapping[str, str]) -> None:
    """RuntimeError unless a process with this environment has the tree's own modules."""
    ask = [tree.python, "-c", "import orion_recall; print(orion_recall.__file__)"]
    told = subprocess.run(ask, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment}, text=True)
    if not Path(told.stdout.strip()).is_relative_to(tree.folder):
        raise RuntimeError(f"{tree.name} would run the modules of {told.stdout.strip()}")


async def run(options: argparse.Namespace, folder: Path) -> Comparison:
    """Both workers filled, then the rounds."""
    theirs = await asyncio.to_thread(other_tree, options.revision, folder / "tree")
    ours = Tree(name="this tree", folder=_REPOSITORY, python=sys.executable)
    async with contextlib.AsyncExitStack() as stack:
        workers: list[RunningWorker] = []
        for place, tree in enumerate((ours, theirs)):
            say(f"{tree.name}: engines and {options.size:,} memories")
            processes = options.processes if tree is ours else 1
            made = running(tree, options.size, options.profile, folder / str(place), processes=processes)
            workers.append(await stack.enter_async_context(made))
        waited = await settled(workers)
        rounds: list[Round] = []
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            rest = RestOfMachine()
            cells: list[dict[int, Cell]] = [{}, {}]
            for in_flight in IN_FLIGHT:
                for place in ((0, 1), (1, 0))[number % 2]:
                    cells[place][in_flight] = await recall_cell(workers[place], in_flight, options.seconds_per_cell)
            rounds.append(Round(ours=cells[0], theirs=cells[1], rest_busy=rest.busy_share()))
        return Comparison(
            revision=theirs.name,
            size=options.size,
            profile=options.profile,
            processes=options.processes,
            rounds=rounds,
            waited=waited,
            import_s=(workers[0].imported.seconds, workers[1].imported.seconds),
            peak_mib=_peaks(workers[0], workers[1]) if options.processes == 1 else None,
            seconds=seconds_so_far(),
        )


def _peaks(ours: RunningWorker, theirs: RunningWorker) -> tuple[float, float]:
    return tree_peak_memory_mib(ours.worker_pid), tree_peak_memory_mib(theirs.worker_pid)


def ratio(rounds: Sequence[Round], in_flight: int, figure: Figure) -> Spread:
    """This tree's figure divided by the other's, round by round."""
    found = Spread.of([figure(one.ours[in_flight]) / figure(one.theirs[in_flight]) for one in rounds])
    assert found is not None
    return found


def as_json(result: Comparison) -> dict[str, Any]:
    ratios = {
        str(in_flight): {
            name: asdict(ratio(result.rounds, in_flight, figure)) for name, figure in result.figures.items()
        }
        for in_flight in IN_FLIGHT
    }
    return {**asdict(result), "ratios": ratios}


def print_report(result: Comparison, out: Console) -> None:
    """One table: the medians of both, and the ratio with its range."""
    several = f", {result.processes} processes against one" if result.processes > 1 else ""
    out.print(Text(f"{result.size:,} memories, {result.profile}, {len(result.rounds)} rounds{several}"))
    for one in result.waited:
        out.print(Text(f"waited before for {one}"))
    table = Table("in flight", "figure", "this tree", result.revision, "ratio", "lowest", "highest")
    for in_flight in IN_FLIGHT:
        for name, figure in result.figures.items():
            both = [
                Spread.of([figure(cells[in_flight]) for cells in side])
                for side in ([one.ours for one in result.rounds], [one.theirs for one in result.rounds])
            ]
            spread = ratio(result.rounds, in_flight, figure)
            medians = [f"{one.median:.2f}" for one in both if one is not None]
            table.add_row(
                str(in_flight), name, *medians, *(f"{one:.2f}" for one in (spread.median, spread.low, spread.high))
            )
    out.print(table)
    both_have = {"import, seconds": result.import_s}
    if result.peak_mib is not None:
        both_have["peak memory, MiB"] = result.peak_mib
    for name, (ours, theirs) in both_have.items():
        out.print(Text(f"{name}: {ours:.1f} and {theirs:.1f}, ratio {ours / theirs:.2f}"))
    loud = sum(one.rest_busy >= QUIET_BUSY_SHARE for one in result.rounds)
    if loud:
        out.print(
            Text(f"in {loud} of {len(result.rounds)} rounds the rest of the machine was busy: wall times tell less")
        )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, rounds=4)
    parser.add_argument("revision", metavar="REVISION", help="a commit, tag or branch of this repository")
    parser.add_argument("--size", type=at_least(100), default=1000, help="memories")
    parser.add_argument("--processes", type=at_least(1), default=1, help="of this tree's worker; the other has one")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    with engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
