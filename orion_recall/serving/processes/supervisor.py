"""Several workers: what each has of its own, and the supervisor that starts, restarts and stops them.

    .orion/index, .orion/graph              worker 1: the place of a worker that is alone
    .orion/workers/2/index, …/2/graph       worker 2

Everything else is the same for all: a worker reads the environment of the command that started it.

A worker that dies is started again after a pause, which grows while it dies young. One that dies young again and
again ends all of them: somebody has to look, and whoever started this process may start it on another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orion_recall.engines.engine import how_it_ended
from orion_recall.engines.launch import __file__ as launcher
from orion_recall.errors import SettingsError, WorkersFailed
from orion_recall.serving.observe.observer import listening_socket
from orion_recall.settings import Settings
from orion_recall.tasks import Backoff, Sleep, sleep

log = logging.getLogger("orion_recall.service")


WORKERS = "workers"
MOST = 64
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One worker: its number from 1 on, its data folder, and the variables that are not as its parent's."""

    number: int
    data_dir: Path
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"worker {self.number}"


def plans_of(settings: Settings, count: int, given: Mapping[str, str]) -> list[WorkerPlan]:
    """A plan for each of `count` workers; `given` are variables for all of them.

    SettingsError when a health port cannot be had.
    """
    _check_ports(settings, count)
    return [
        WorkerPlan(
            number=number,
            data_dir=data_dir_of(settings.data_dir, number),
            environment={**given, **_own_variables(settings, number, count)},
        )
        for number in range(1, count + 1)
    ]


def data_dir_of(data_dir: Path, number: int) -> Path:
    whole = data_dir.resolve()
    return whole if number == 1 else whole / WORKERS / str(number)


def further_folders(data_dir: Path) -> Iterator[tuple[int, Path]]:
    place = data_dir.resolve() / WORKERS
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.name.isdecimal() and str(int(path.name)) == path.name and path.is_dir():
            yield int(path.name), path


def _own_variables(settings: Settings, number: int, count: int) -> dict[str, str]:
    found = {"ORION_DATA_DIR": str(data_dir_of(settings.data_dir, number))}
    if "instance" in settings.model_fields_set and number > 1:
        found["ORION_INSTANCE"] = f"{settings.instance}-{number}"
    if settings.health_port:  # 0: each takes a free one
        found["ORION_HEALTH_PORT"] = str(settings.health_port + number - 1)
    return found


def _check_ports(settings: Settings, count: int) -> None:
    if not settings.health_port:
        return
    last = settings.health_port + count - 1
    if last > _LAST_PORT:
        raise SettingsError(f"ORION_HEALTH_PORT: {count} workers need ports {settings.health_port} to {last}")
    for port in range(settings.health_port, last + 1):
        listening_socket(settings.health_host, port).close()


# What is run with `python -m`.
PROGRAM = "orion_recall"
# Tells a worker that its parent looks after the folders of all.
ONE_OF_SEVERAL = "--one-of-several"
_LONGEST_LINE = 1 << 20
_TOLD_CHARS = 2000


class WorkerProcess:
    """A running worker. It must be started on a thread that lives as long as it: the event loop's.

    `error` is what it said on standard output of why it could not start, "" when it said nothing.
    """

    def __init__(self, plan: WorkerPlan, process: Process) -> None:
        self.plan, self._process = plan, process
        self.error = ""

    @classmethod
    async def start(cls, plan: WorkerPlan) -> WorkerProcess:
        """Starts it; its log goes where this process's does.

        A session of its own keeps a Ctrl-C in the terminal from reaching it before its parent. SIGKILL is what the
        kernel sends it when the parent is gone: then its folder is free at once for the next start, and the bus
        hands what it had taken to others.
        """
        line = (sys.executable, "-m", PROGRAM, "worker", "--json", ONE_OF_SEVERAL)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(signal.SIGKILL)), "-"),
            *line,
            stdin=DEVNULL,
            stdout=PIPE,
            env={**os.environ, **plan.environment},
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        return cls(plan, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> Mapping[str, Any] | None:
        """What it says once it takes queries; None when it ends before that, and `error` says why."""
        assert self._process.stdout is not None
        first = await self._process.stdout.readline()
        with contextlib.suppress(ValueError):
            told: Any = json.loads(first)
            if "ready" in told:
                return told
        self.error = _why(first + await self._process.stdout.read())
        return None

    async def wait(self) -> int:
        return await self._process.wait()

    def terminate(self) -> None:
        """The first time: it takes nothing more, answers what it has, and ends. The second time: it ends."""
        self._send(signal.SIGTERM)

    def reload(self) -> None:
        self._send(signal.SIGHUP)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def _why(said: bytes) -> str:
    text = said.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:_TOLD_CHARS]


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
# A death sooner than this after it took queries is one of a row, and so is one before.
STEADY_S = 10.0
MOST_DEATHS = 5
# A worker lets what it has taken end within twelve seconds.
PATIENCE_S = 20.0
_CUT_OFF_S = 5.0
# Wrong use, wrong settings, a folder that another process has: to start it again would not help.
_WRONG_USE = 2

Ready = Mapping[str, Any]


class Running(Protocol):
    """What the supervisor needs of a worker's process."""

    error: str

    @property
    def pid(self) -> int: ...
    async def ready(self) -> Ready | None: ...
    async def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def reload(self) -> None: ...
    def kill(self) -> None: ...


Start = Callable[[WorkerPlan], Awaitable[Running]]


@dataclass(slots=True)
class _Seat:
    """A place for a worker; `ready` is what the present one or the last one said when it took queries.

    `hears`: the present one has said so. Before that a signal to reload would end it.
    """

    plan: WorkerPlan
    running: Running | None = None
    ready: Ready | None = None
    hears: bool = False
    deaths: int = 0


class Supervisor:
    """Keeps a worker running for each plan: `run()` until `stop()`."""

    def __init__(
        self,
        plans: Sequence[WorkerPlan],
        start: Start,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = sleep,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._seats = [_Seat(plan) for plan in plans]
        self._start, self._clock, self._sleep, self._patience_s = start, clock, sleep, patience_s
        self._stopping, self._all_ready = asyncio.Event(), asyncio.Event()

    async def run(self, announce: Callable[[Sequence[Ready]], None]) -> None:
        """Returns when all have ended after `stop()`. `announce` is called once, when all take queries.

        SettingsError or WorkersFailed when one cannot be started, WorkersFailed when one dies again and again: the
        others were stopped before.
        """
        keeping = [asyncio.create_task(self._keep(seat), name=seat.plan.name) for seat in self._seats]
        starting = asyncio.create_task(self._all_ready.wait())
        try:
            await asyncio.wait([starting, *keeping], return_when=asyncio.FIRST_COMPLETED)
            if self._all_ready.is_set() and not self._stopping.is_set():
                announce([seat.ready for seat in self._seats if seat.ready is not None])
            done, others = await asyncio.wait(keeping, return_when=asyncio.FIRST_EXCEPTION)
            self.stop()
            if others:
                await asyncio.wait(others)
            for task in done:
                task.result()
        finally:
            starting.cancel()
            await self._cut_off(keeping)

    def stop(self) -> None:
        """All take nothing more, answer what they have and end; who has not by then is killed."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for running in self._running():
            running.terminate()
        asyncio.get_running_loop().call_later(self._patience_s, self._kill)

    def reload(self) -> None:
        """All read their profiles again; who is being started reads them anyway."""
        for seat in self._seats:
            if seat.running is not None and seat.hears:
                seat.running.reload()

    def _running(self) -> list[Running]:
        return [seat.running for seat in self._seats if seat.running is not None]

    def _kill(self) -> None:
        for running in self._running():
            log.warning("process %d did not stop in %g s: killed", running.pid, self._patience_s)
            running.kill()

    async def _cut_off(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Ends what still runs after a second stop signal, and at once what does not hear that."""
        self._stopping.set()
        for running in self._running():
            running.terminate()
        waiting = [task for task in keeping if not task.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=_CUT_OFF_S)
        for running in self._running():
            running.kill()
        await asyncio.gather(*keeping, return_exceptions=True)

    async def _keep(self, seat: _Seat) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, sleep=self._sleep)
        while not self._stopping.is_set():
            running = seat.running = await self._start(seat.plan)
            if self._stopping.is_set():  # asked while it was being started
                running.terminate()
            ready = await running.ready()
            ready_at = self._clock()
            if ready is not None:
                self._is_ready(seat, ready)
            code = await running.wait()
            seat.running, seat.hears = None, False
            if self._stopping.is_set():
                return
            if seat.ready is None:
                raise _not_started(seat.plan, code, running.error)
            self._count_death(seat, backoff, was_steady=ready is not None and self._clock() - ready_at >= STEADY_S)
            self._tell(seat, f"process {running.pid} {how_it_ended(code)}", running.error, backoff.next_s)
            await backoff.wait(self._stopping)

    def _is_ready(self, seat: _Seat, ready: Ready) -> None:
        if seat.ready is not None:
            log.info("%s takes queries again, as process %s", seat.plan.name, ready.get("pid"))
        seat.ready, seat.hears = ready, True
        if all(other.ready is not None for other in self._seats):
            self._all_ready.set()

    def _count_death(self, seat: _Seat, backoff: Backoff, *, was_steady: bool) -> None:
        if was_steady:
            seat.deaths = 0
            backoff.reset()
        seat.deaths += 1

    def _tell(self, seat: _Seat, what: str, why: str, pause_s: float) -> None:
        told = f"{what}: {why}" if why else what
        if seat.deaths >= MOST_DEATHS:
            raise WorkersFailed(
                f"{seat.plan.name} died {seat.deaths} times in a row, each time within {STEADY_S:g} s of taking "
                f"queries, or before: {told}; its log says why"
            )
        log.error("%s died and is started again within %.1f s: %s", seat.plan.name, pause_s, told)


def _not_started(plan: WorkerPlan, code: int, why: str) -> Exception:
    told = f"{plan.name} did not start ({how_it_ended(code)}): {why or 'its log says why'}"
    return SettingsError(told) if code == _WRONG_USE else WorkersFailed(told)
