"""Several workers as processes of one command: what each has of its own, and how they are kept alive.

    .orion/index, .orion/graph              worker 1: the place of a worker that is alone
    .orion/workers/2/index, …/2/graph       worker 2

Index and graph of further workers are copied from the first one's while nobody has them open: that is faster than
to embed again. Those of workers that are wanted no more are deleted: nobody would take out of them what is to be
forgotten. A worker that dies is started again after a pause; one that dies young again and again ends all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM
from typing import Any, NamedTuple

from orion_recall.engines.engine import how_it_ended
from orion_recall.engines.launch import __file__ as launcher
from orion_recall.engines.lock import LOCK_NAME, FolderLock, holder
from orion_recall.errors import EngineError, RecordError, SettingsError, SourceError, WorkersFailed
from orion_recall.index.embedded.folders import BUILDS, CURRENT, live_place, read_metadata
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import close_pool, open_pool
from orion_recall.serving.backends import embedded_copies, own_copy
from orion_recall.serving.observe.observer import listening_socket
from orion_recall.settings import Settings
from orion_recall.tasks import POSTGRES_S, Backoff, Sleep, cancel, sleep

log = logging.getLogger("orion_recall.service")

MOST = 64
_LAST_PORT = 65_535
# What is run with `python -m`.
PROGRAM = "orion_recall"
# Tells a worker that its parent looks after the folders of all.
ONE_OF_SEVERAL = "--one-of-several"
_LONGEST_LINE, _TOLD_CHARS = 1 << 20, 2000

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
# A death sooner than this after it took queries is one of a row, and so is one before.
_STEADY_S = 10.0
MOST_DEATHS = 5
# A worker lets what it has taken end within twelve seconds.
_PATIENCE_S, _CUT_OFF_S = 20.0, 5.0
# Wrong use, wrong settings, a folder that another process has: to start it again would not help.
_WRONG_USE = 2

# What a worker says once it takes queries.
Ready = Mapping[str, Any]


class WorkerPlan(NamedTuple):
    """One worker: its number from 1 on, and the variables that are not as its parent's."""

    number: int
    environment: Mapping[str, str]


def plans_of(settings: Settings, count: int, given: Mapping[str, str]) -> list[WorkerPlan]:
    """Plans of `count` workers, with variables `given` to all; SettingsError when a health port cannot be had."""
    ports: Sequence[int] = ()
    if settings.health_port:  # 0: each takes a free one
        ports = range(settings.health_port, settings.health_port + count)
        if ports[-1] > _LAST_PORT:
            raise SettingsError(f"ORION_HEALTH_PORT: {count} workers need ports {ports[0]} to {ports[-1]}")
    plans: list[WorkerPlan] = []
    for number in range(1, count + 1):
        own = {"ORION_DATA_DIR": str(data_dir_of(settings.data_dir, number))}
        if "instance" in settings.model_fields_set and number > 1:
            own["ORION_INSTANCE"] = f"{settings.instance}-{number}"
        if ports:
            listening_socket(settings.health_host, ports[number - 1]).close()
            own["ORION_HEALTH_PORT"] = str(ports[number - 1])
        plans.append(WorkerPlan(number=number, environment={**given, **own}))
    return plans


def data_dir_of(data_dir: Path, number: int) -> Path:
    whole = data_dir.resolve()
    return whole if number == 1 else whole / "workers" / str(number)


class WorkerProcess:
    """A running worker. It must be started on a thread that lives as long as it: the event loop's.

    `error` is what it said on standard output of why it could not start, "" when it said nothing.
    """

    def __init__(self, process: Process) -> None:
        self.pid, self._process, self.error = process.pid, process, ""

    @classmethod
    async def start(cls, plan: WorkerPlan) -> WorkerProcess:
        """Starts it; its log goes where this process's does. The kernel kills it when its parent is gone."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(SIGKILL)), "-"),
            *(sys.executable, "-m", PROGRAM, "worker", "--json", ONE_OF_SEVERAL),
            stdin=DEVNULL,
            stdout=PIPE,
            env={**os.environ, **plan.environment},
            start_new_session=True,  # Ctrl-C in a terminal must not reach it before its parent
            limit=_LONGEST_LINE,
        )
        return cls(process)

    async def ready(self) -> Ready | None:
        """What it says once it takes queries; None when it ends before that, and `error` says why."""
        assert self._process.stdout is not None
        first = await self._process.stdout.readline()
        with contextlib.suppress(ValueError):
            told: Any = json.loads(first)
            if "ready" in told:
                return told
        text = (first + await self._process.stdout.read()).decode("utf-8", "replace").strip()
        try:
            self.error = str(json.loads(text)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            self.error = text[:_TOLD_CHARS]
        return None

    async def wait(self) -> int:
        return await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


@dataclass(slots=True)
class _Seat:
    """A place for a worker; `ready` is what the last one said when it took queries, `hears`: the present has."""

    plan: WorkerPlan
    running: WorkerProcess | None = None
    ready: Ready | None = None
    hears: bool = False
    deaths: int = 0

    @property
    def name(self) -> str:
        return f"worker {self.plan.number}"


class Supervisor:
    """Keeps a worker running for each plan: `run()` until `stop()`."""

    def __init__(
        self,
        plans: Sequence[WorkerPlan],
        start: Callable[[WorkerPlan], Awaitable[WorkerProcess]] = WorkerProcess.start,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = sleep,
    ) -> None:
        self._seats = [_Seat(plan) for plan in plans]
        self._start, self._clock, self._sleep = start, clock, sleep
        self._stopping, self._all_ready = asyncio.Event(), asyncio.Event()

    async def run(self, announce: Callable[[Sequence[Ready]], None]) -> None:
        """Returns when all have ended after `stop()`. `announce` is called once, when all take queries.

        SettingsError or WorkersFailed when one cannot be started or dies again and again; all others have ended.
        """
        keeping = [asyncio.create_task(self._keep(seat), name=seat.name) for seat in self._seats]
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
            # After a second stop signal; who does not hear that is killed.
            self._stopping.set()
            self._send(SIGTERM)
            await asyncio.wait(keeping, timeout=_CUT_OFF_S)
            self._send(SIGKILL)
            await asyncio.gather(*keeping, return_exceptions=True)

    def stop(self) -> None:
        """All take nothing more, answer what they have and end, or are killed after a while."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._send(SIGTERM)
            asyncio.get_running_loop().call_later(_PATIENCE_S, self._send, SIGKILL)

    def reload(self) -> None:
        """All read their profiles again; who is being started reads them anyway."""
        self._send(SIGHUP)

    def _send(self, number: signal.Signals) -> None:
        for seat in self._seats:
            if seat.running is not None and (seat.hears or number != SIGHUP):
                if number == SIGKILL:
                    log.warning("process %d did not stop: killed", seat.running.pid)
                seat.running.send(number)

    async def _keep(self, seat: _Seat) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, sleep=self._sleep)
        while not self._stopping.is_set():
            running = seat.running = await self._start(seat.plan)
            if self._stopping.is_set():  # asked while it was being started
                running.send(SIGTERM)
            ready, ready_at = await running.ready(), self._clock()
            if ready is not None:
                if seat.ready is not None:
                    log.info("%s takes queries again, as process %s", seat.name, ready.get("pid"))
                seat.ready, seat.hears = ready, True
                if all(other.ready is not None for other in self._seats):
                    self._all_ready.set()
            code = await running.wait()
            seat.running, seat.hears = None, False
            if self._stopping.is_set():
                return
            if seat.ready is None:
                why = running.error or "its log says why"
                told = f"{seat.name} did not start ({how_it_ended(code)}): {why}"
                raise SettingsError(told) if code == _WRONG_USE else WorkersFailed(told)
            if ready is not None and self._clock() - ready_at >= _STEADY_S:
                seat.deaths = 0
                backoff.reset()
            seat.deaths += 1
            told = f"process {running.pid} {how_it_ended(code)}"
            told = f"{told}: {running.error}" if running.error else told
            if seat.deaths >= MOST_DEATHS:
                raise WorkersFailed(
                    f"{seat.name} died {seat.deaths} times in a row, each time within {_STEADY_S:g} s of taking "
                    f"queries, or before: {told}; its log says why"
                )
            log.error("%s died and is started again within %.1f s: %s", seat.name, backoff.next_s, told)
            await backoff.wait(self._stopping)


_FILES = ("shard", "tokens", "store", CURRENT)
_NOT_COPIED = shutil.ignore_patterns(LOCK_NAME, BUILDS, CURRENT)


def make_further_copies(settings: Settings, count: int) -> list[Path]:
    """Index and graph of workers 2 to `count`, where they are missing or not of the first one's kind; the new ones.

    What cannot be copied is filled from the record by its worker. A folder that a process has open is left alone.
    """
    first, made = settings.data_dir.resolve(), list[Path]()
    for number in range(2, count + 1):
        place = data_dir_of(first, number)
        if not _is_of_one_kind(first / "index", place / "index"):
            _delete(place)
        for kind in embedded_copies(settings):
            if not _is_there(first / kind) or _is_there(place / kind):
                continue
            try:
                _copy(first / kind, place / kind, settings.min_free_bytes)
            except (OSError, SourceError, EngineError) as error:
                log.warning("%s is filled from the record: it cannot be copied (%s)", place / kind, error)
                continue
            made.append(place / kind)
    return made


def delete_surplus(settings: Settings, count: int) -> list[int]:
    """Deletes index and graph of the workers after `count`; their numbers, to be unregistered."""
    numbers = [path.name for path in (settings.data_dir.resolve() / "workers").glob("[1-9]*") if path.is_dir()]
    surplus = sorted(int(name) for name in numbers if name.isdecimal() and int(name) > count)
    return [number for number in surplus if _delete(data_dir_of(settings.data_dir, number))]


async def unregister(settings: Settings, numbers: Sequence[int]) -> None:
    """Takes the copies of these workers out of the record's register; waits while Postgres is away."""
    if not numbers or settings.dsn is None:
        return
    pool, backoff = await open_pool(settings.dsn, name="unregister", max_size=1), Backoff(*POSTGRES_S)
    try:
        for number in numbers:
            place = data_dir_of(settings.data_dir, number)
            name = own_copy(settings.changed(data_dir=place))
            while True:
                try:
                    await Record(pool).forget(name, silent_s=0)
                    break
                except RecordError as error:
                    log.debug("the copy %s is taken out of the register later: %s", name, error)
                    await backoff.wait()
            with contextlib.suppress(OSError):  # somebody has begun to use it; as long as it is there, this is done
                place.rmdir()
            log.info("worker %d is wanted no more: its index and graph are deleted and unregistered", number)
    finally:
        await close_pool(pool)


def _is_there(folder: Path) -> bool:
    return any((folder / name).exists() for name in _FILES)


def _is_of_one_kind(first: Path, further: Path) -> bool:
    """Whether two indexes are by one model and from one database; yes where one of them cannot say."""
    if not _is_there(further):
        return True
    if not _is_there(first):  # somebody has deleted it, to have it built again
        return False
    with contextlib.suppress(SourceError):
        made_by = [replace(read_metadata(live_place(one), one), position=0, made="") for one in (first, further)]
        return made_by[0] == made_by[1]
    return True


def _copy(source: Path, target: Path, min_free_bytes: int) -> None:
    part = target.with_name(f"{target.name}.part")
    hint = "or start it with fewer workers"
    with FolderLock.acquire(source, "the folder", hint), FolderLock.acquire(target, "the folder", hint):
        live = live_place(source)
        shutil.rmtree(part, ignore_errors=True)
        needed = sum(path.stat().st_size for path in live.rglob("*") if path.is_file())
        if shutil.disk_usage(target.parent).free - needed < min_free_bytes:
            raise SourceError("its disk is short")
        try:
            shutil.copytree(live, part, ignore=_NOT_COPIED)
            for path in sorted(part.iterdir(), key=Path.is_dir):  # with the folder it is there
                path.rename(target / path.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _delete(place: Path) -> bool:
    """Whether index and graph there are gone; not while a process has one of them open."""
    if not place.exists():
        return False
    with contextlib.ExitStack() as stack:
        for folder in (place / kind for kind in ("index", "graph") if (place / kind).is_dir()):
            if (lock := FolderLock.try_acquire(folder)) is None:
                log.warning("%s is kept: process %s has it open", place, holder(folder))
                return False
            stack.enter_context(lock)
        for folder in place.iterdir():
            shutil.rmtree(folder, ignore_errors=True)
    return True


@contextlib.asynccontextmanager
async def folders_of(settings: Settings, count: int) -> AsyncGenerator[None]:
    """Folders for so many workers, and for no more. While the block runs, those that are gone are unregistered."""
    surplus = await asyncio.to_thread(delete_surplus, settings, count)
    for folder in await asyncio.to_thread(make_further_copies, settings, count):
        log.info("%s is a copy of the first worker's", folder)
    unregistering = asyncio.create_task(unregister(settings, surplus))
    try:
        yield
    finally:
        await cancel(unregistering)
