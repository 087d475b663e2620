"""A worker as a process of its own whose clock is wrong, or whose event loop is watched; else it is the program.

CHAOS_CLOCK_AHEAD_S     seconds that its machine's clock is ahead of the true time
CHAOS_LOOP_FILE         a file for the longest that one step of its event loop took, in milliseconds
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, cast

from orion_recall.bus import envelope, group_reader
from orion_recall.cli import main as program
from orion_recall.recall.report import decision
from orion_recall.serving import several_workers

_SHORT_S = 0.005


def main() -> None:
    """Be the program, with what the variables say; so are the workers that it starts."""
    several_workers.PROGRAM = "tests.chaos.odd_worker"
    if ahead := float(os.environ.get("CHAOS_CLOCK_AHEAD_S", "0")):
        set_clock(ahead)
    if file := os.environ.get("CHAOS_LOOP_FILE"):
        watch_loop(Path(file))
    program.main()


def set_clock(ahead_s: float) -> None:
    """From now on this process's clock is so far ahead. Never undone: the process is for this alone."""
    wall, wall_ns = time.time, time.time_ns

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Wrong:
            told = super().now(tz) + timedelta(seconds=ahead_s)
            assert isinstance(told, cls)
            return told

    time.time = lambda: wall() + ahead_s
    time.time_ns = lambda: wall_ns() + int(ahead_s * 1e9)
    for module in (envelope, decision):
        setattr(module, "datetime", Wrong)  # noqa: B010  its type is a class
    cast("Any", group_reader.BusClock.__init__).__kwdefaults__["wall"] = time.time


def watch_loop(file: Path) -> None:
    """Write the longest step of the event loop to a file whenever there is a longer one; without the file, anew.

    Two lengths: by the clock, which others on the machine lengthen, and of the loop's own processor time.
    """
    longest = {"wall": (0.0, ""), "cpu": (0.0, "")}
    step: Any = vars(asyncio.Handle)["_run"]

    def run(self: asyncio.Handle) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            step(self)
        finally:
            note(self, {"wall": time.perf_counter() - wall, "cpu": time.thread_time() - cpu})

    def note(handle: asyncio.Handle, took: dict[str, float]) -> None:
        if took["wall"] < _SHORT_S:
            return
        if not file.exists():
            longest.update({"wall": (0.0, ""), "cpu": (0.0, "")})
        for which, seconds in took.items():
            longest[which] = max(longest[which], (seconds * 1000, repr(handle)[:300]))
        told = {f"{which}_ms": round(ms, 1) for which, (ms, _) in longest.items()}
        file.write_text(json.dumps(told | {"of": longest["cpu"][1]}), "utf-8")

    setattr(asyncio.Handle, "_run", run)  # noqa: B010  a private name, and meant


if __name__ == "__main__":
    main()
