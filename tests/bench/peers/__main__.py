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
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orion_recall.evaluation.measures import Mean
from tests.bench.command import engines_folder, finish, parser_of, say, seconds_so_far
from tests.bench.corpus import Corpus, corpus
from tests.bench.measure import RestOfMachine
from tests.bench.peers.asked import CannotMeasure, Figures, K, System, recall_on
from tests.bench.peers.ours import open_ours
from tests.bench.peers.peer import KINDS, Kind
from tests.bench.peers.peer_process import PeerProcess, open_process, told
from tests.bench.peers.report import IN_FLIGHT, Comparison, Measured, Skipped, as_json, print_report


@dataclass(slots=True, kw_only=True)
class _Taking:
    """A system, and what was measured of it so far."""

    system: System
    rounds: list[dict[int, Figures]] = field(default_factory=list[dict[int, Figures]])
    memory_mib: float = 0.0
    recall: dict[int, Mean] = field(default_factory=dict[int, Mean])

    def measured(self) -> Measured:
        about = self.system.about
        return Measured(about=about, rounds=self.rounds, memory_mib=self.memory_mib, recall=self.recall)


async def run(options: argparse.Namespace, folder: Path) -> Comparison:
    """All systems filled, one after another; then the rounds; then the golden set."""
    memories = corpus(options.size, now=time.time())
    skipped: list[Skipped] = []
    async with contextlib.AsyncExitStack() as stack:
        say(f"orion-recall: {options.size:,} memories")
        ours = await stack.enter_async_context(open_ours(memories, options.profile, folder / "ours"))
        taking = [_Taking(system=ours)]
        for kind in (KINDS[name] for name in options.only or KINDS):
            say(f"{kind.shown}: {options.size:,} memories")
            with _left_out(kind.shown, skipped):
                taking.append(_Taking(system=await _filled(stack, kind, memories, folder / kind.name)))
        rest_busy = [await _round(taking, number, options, skipped) for number in range(options.rounds)]
        for one in taking:
            say(f"{one.system.about.shown}: the golden set")
            with _left_out(one.system.about.shown, skipped):
                one.recall = await recall_on(one.system)
        return Comparison(
            size=options.size,
            k=K,
            seconds_per_cell=options.seconds_per_cell,
            measured=[one.measured() for one in taking if one.recall],
            skipped=skipped,
            rest_busy=rest_busy,
            seconds=seconds_so_far(),
        )


@contextlib.contextmanager
def _left_out(shown: str, skipped: list[Skipped]) -> Generator[None]:
    """A system that cannot be measured is left out; the others go on."""
    try:
        yield
    except CannotMeasure as error:
        say(f"{shown} is left out: {error}")
        skipped.append(Skipped(shown=shown, reason=str(error)))


async def _filled(stack: contextlib.AsyncExitStack, kind: Kind, memories: Corpus, folder: Path) -> PeerProcess:
    """A peer that cannot be filled is closed at once."""
    async with contextlib.AsyncExitStack() as own:
        folder.mkdir(mode=0o711)
        peer = await own.enter_async_context(open_process(kind, folder))
        await peer.fill(told(memories.memories))
        stack.push_async_exit(own.pop_all())
        return peer


async def _round(taking: list[_Taking], number: int, options: argparse.Namespace, skipped: list[Skipped]) -> float:
    """One round; the next system is first in each. Returns how busy the rest of the machine was."""
    say(f"round {number + 1} of {options.rounds}")
    rest = RestOfMachine()
    for one in taking:
        one.rounds.append({})
    for in_flight in IN_FLIGHT:
        for one in [taking[place] for place in turns(len(taking), number)]:
            with _left_out(one.system.about.shown, skipped):
                one.rounds[-1][in_flight] = await one.system.cell(in_flight, options.seconds_per_cell)
                one.memory_mib = max(one.memory_mib, one.system.memory_mib())
        taking[:] = [one for one in taking if in_flight in one.rounds[-1]]
    return rest.busy_share()


def turns(systems: int, number: int) -> list[int]:
    """The order of the systems in a round: each is first in one of them, and the order goes round."""
    first = number % systems
    return [*range(first, systems), *range(first)]


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=int, default=1000, help="memories")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds-per-cell", type=float, default=3.0)
    parser.add_argument("--profile", default="reflect.v1", help="ours")
    parser.add_argument("--only", action="append", choices=tuple(KINDS), help="this peer; may be repeated")
    read = parser.parse_args(arguments)
    if read.rounds < 1 or read.seconds_per_cell <= 0 or read.size < 100:
        parser.error("at least one round, seconds above 0, and 100 memories")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    with engines_folder() as folder:
        finish(run(options, folder), show=print_report, as_json=as_json, file=options.json)


if __name__ == "__main__":
    main()
