"""Trials of the promises: what is never lost, never leaked and always said.

    python -m tests.chaos [steady fuzz leaks overload soak] [--queries 20000] … [--json FILE]

All of them, or those named, one after the other, at the sizes that are published unless options say less. Exit code
1 when a promise is broken; of promises of time only with --timed, for they hold on a machine that has nothing else
to do. Ctrl-C ends everything that was started, and shows the trials that were finished.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

from orion_recall.cli.output import console
from tests.bench.command import parser_of, say
from tests.chaos import fuzz, leaks, overload, soak, steady
from tests.chaos.trial import Trial, as_json, show

# Of each its options.
TRIALS: dict[str, tuple[ModuleType, str]] = {
    "steady": (steady, "queries stores per_s seed faults most_minutes processes"),
    "fuzz": (fuzz, "inputs giants seed most_minutes"),
    "leaks": (leaks, "questions tenants in_flight seed most_minutes"),
    "overload": (overload, "seconds memories"),
    "soak": (soak, "minutes memories"),
}


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"of {', '.join(TRIALS)}; without any: all")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--most-minutes", type=float, default=600.0, help="steady, fuzz, leaks: each ends then")
    parser.add_argument("--timed", action="store_true", help="broken promises of time count, too")
    parser.add_argument("--queries", type=int, default=20_000, help="steady: queries")
    parser.add_argument("--stores", type=int, default=2_000, help="steady: stores")
    parser.add_argument("--per-s", type=float, default=20.0, help="steady: messages a second")
    parser.add_argument("--faults", nargs="*", default=(), metavar="FAULT", help="steady: these faults only")
    parser.add_argument("--processes", type=int, default=1, help="steady: processes of each of its two workers")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="fuzz: generated inputs")
    parser.add_argument("--giants", type=int, default=500, help="fuzz: messages up to the limit")
    parser.add_argument("--questions", type=int, default=100_000, help="leaks: queries")
    parser.add_argument("--tenants", type=int, default=50, help="leaks: tenants")
    parser.add_argument("--in-flight", type=int, default=16, help="leaks: queries at once")
    parser.add_argument("--seconds", type=float, default=120.0, help="overload: of every phase")
    parser.add_argument("--memories", type=int, default=500, help="overload, soak: memories of each tenant")
    parser.add_argument("--minutes", type=float, default=30.0, help="soak")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.trials if name not in TRIALS]:
        parser.error(f"there is no trial {unknown[0]!r}: {', '.join(TRIALS)}")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and report; the exit code."""
    given = read_options(arguments)
    ended: list[Trial] = []
    code = 0
    try:
        for name in given.trials or TRIALS:
            say(f"{name} begins")
            ended.append(asyncio.run(_run(name, given)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped")
        code = 130
    show(ended, console(width=140))
    if given.json is not None:
        given.json.write_text(json.dumps(as_json(ended), indent=2) + "\n", "utf-8")
    if any(given.timed or not promise.is_timed for trial in ended for promise in trial.broken):
        return 1
    return code


async def _run(name: str, given: argparse.Namespace) -> Trial:
    """SIGTERM ends it as Ctrl-C does, and that also where a shell started it to ignore Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    module, names = TRIALS[name]
    return await module.run(**{option: getattr(given, option) for option in names.split()})


if __name__ == "__main__":
    sys.exit(main())
