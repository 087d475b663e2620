"""Measuring: percentiles, CPU and memory of processes, and the load by the rest of the machine.

CPU is read from the processes' own clocks where there are any (nanoseconds), else from the kernel's ticks (10 ms).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

QUIET_BUSY_SHARE = 0.15
"""Wall times count where the rest of the machine was less busy."""
_MIB = 1024 * 1024
WAL = "postgres: write-ahead log"
# The first part of a path that fits names the store.
_STORES = (
    ("index/", "index"),
    ("graph/", "graph"),
    ("postgres/cluster/pg_wal/", WAL),
    ("postgres/", "postgres: tables"),
    ("valkey/", "valkey"),
)
_RESIDENT = re.compile(r"^(RssAnon|RssFile):\s+(\d+) kB", re.MULTILINE)
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one call costs, in milliseconds: wall by percentile, and CPU on the average."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of a few rounds, with the lowest and the highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        if not values:
            return None
        return cls(median=percentile(values, 0.5), low=min(values), high=max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}..{self.high:.2f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, interpolated between neighbours; of one value at least."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def cost_of_calls(calls: Sequence[Callable[[], object]], *, clock: Callable[[], float], per_call: int = 1) -> Cost:
    """The calls made once each, one after another. `clock` is the CPU clock; `per_call` parts share a call."""
    taken_s: list[float] = []
    cpu_began = clock()
    for call in calls:
        began = time.perf_counter()
        call()
        taken_s.append(time.perf_counter() - began)
    return cost(taken_s, cpu_s=clock() - cpu_began, per_call=per_call)


def cost(taken_s: Sequence[float], *, cpu_s: float, per_call: int = 1) -> Cost:
    """The cost of one of `per_call` parts of a call, from the seconds that each call took and the CPU of all."""
    return Cost(
        p50_ms=percentile(taken_s, 0.5) * 1000 / per_call,
        p95_ms=percentile(taken_s, 0.95) * 1000 / per_call,
        cpu_ms=cpu_s * 1000 / (len(taken_s) * per_call),
        calls=len(taken_s) * per_call,
    )


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all below it, as a worker and the process of its index; empty when it has ended."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process, of all below it, and of those below it that have ended and been waited for."""
    return sum(_cpu_s(process) for process in process_tree(pid))


def thread_cpu_s(pid: int) -> float:
    """CPU seconds of a process's main thread, by the kernel's ticks."""
    threads = psutil.Process(pid).threads()
    return sum(thread.user_time + thread.system_time for thread in threads if thread.id == pid)


def peak_memory_mib(pid: int) -> float:
    """The most that was resident of a process; where the kernel does not say, what is resident now."""
    with suppress(OSError):
        if found := _PEAK.search(Path(f"/proc/{pid}/status").read_text("ascii", "replace")):
            return int(found[1]) / 1024
    return psutil.Process(pid).memory_info().rss / _MIB


def tree_peak_memory_mib(pid: int) -> float:
    """The sum of `peak_memory_mib` of a process and of all below it: of a worker and the process of its index."""
    total = 0.0
    for process in process_tree(pid):
        with suppress(psutil.Error):
            total += peak_memory_mib(process.pid)
    return total


def tree_memory_mib(pid: int) -> float:
    """What is resident now of a process and all below it; what they share counts once where the kernel says so."""
    total = 0
    for process in process_tree(pid):
        with suppress(psutil.Error):
            memory = process.memory_full_info()
            total += getattr(memory, "pss", memory.rss)
    return total / _MIB


def resident_mib(pid: int) -> tuple[float, float]:
    """What is resident now of a process and all below it: their own memory, and mapped files."""
    total = {"RssAnon": 0.0, "RssFile": 0.0}
    for process in process_tree(pid):
        for name, kib in _RESIDENT.findall(Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")):
            total[name] += int(kib) / 1024
    return total["RssAnon"], total["RssFile"]


def disk_by_store(folder: Path) -> dict[str, int]:
    """The bytes that the files below a data folder take on the disk, by store; holes take none."""
    found = dict.fromkeys((*(store for _, store in _STORES), "other"), 0)
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(folder).as_posix()
                store = next((store for part, store in _STORES if name.startswith(part)), "other")
                found[store] += path.stat().st_blocks * 512
    return found


class RestOfMachine:
    """How busy everything else has been since this was made: all but this process and those below it."""

    def __init__(self) -> None:
        self._all, self._idle = _machine_s()
        self._ours = tree_cpu_s(os.getpid())

    def busy_share(self) -> float:
        """The share of all cores that others used, from 0 to 1; what a hypervisor stole is theirs."""
        everything, idle = _machine_s()
        ours = tree_cpu_s(os.getpid()) - self._ours
        passed = everything - self._all
        if passed <= 0:
            return 0.0
        return max(0.0, passed - (idle - self._idle) - ours) / passed


def _machine_s() -> tuple[float, float]:
    """Seconds of all cores since the start of the machine: all of them, and the idle ones."""
    times = psutil.cpu_times()
    waiting = getattr(times, "iowait", 0.0)
    # guest and guest_nice are in user and nice already
    busy = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    return busy + times.idle + waiting, times.idle + waiting


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    ended = times.children_user + times.children_system
    try:
        # The clock of another process, as clock_getcpuclockid(3) makes its number on Linux.
        return time.clock_gettime((~process.pid << 3) | 2) + ended
    except OSError:
        return times.user + times.system + ended
