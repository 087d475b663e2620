"""The life cycle of one embedded server: lock its folder, start, watch, restart, stop."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import stat
import sys
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock, holder
from orion_recall.errors import EngineError, SettingsError
from orion_recall.tasks import Backoff, in_time

logger = logging.getLogger("orion_recall.engines")


def socket_folder(data_dir: Path, uid: int) -> Path:
    """Where the sockets of this data folder live for servers that run as `uid`; nothing is made yet.

    The same folder for the same resolved `data_dir`, so that an address outlives a restart. It is not in TMPDIR,
    which may be long, and another one for another process.
    """
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    return Path(f"/tmp/orion-{uid}-{name}")  # noqa: S108


def make_socket_folder(folder: Path, uid: int) -> None:
    """Makes the folder, mode 700 and owned by `uid`, or finds it so.

    /tmp belongs to everybody: a folder, link or file that another user put there first is refused, or that
    user could stand between us and the servers.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() != uid:
        os.chown(folder, uid, uid, follow_symlinks=False)
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o077:
        raise EngineError(
            f"{folder} is not a private folder of uid {uid} (it belongs to uid {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):o}): remove it, or find out who made it"
        )


_LAUNCHER = Path(__file__).with_name("launch.py")
_POLL_S = 0.02
_LOG_LIMIT_BYTES, _TAIL_BYTES, _TAIL_LINES = 8 << 20, 4096, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run. `stop_signal` asks for a clean end; the kernel sends it too when the parent dies.

    `uid` is the user to become (only root can), and `gid` its group if that has another number. `lock_fd` is a
    folder lock's descriptor that the child holds for as long as it lives.
    """

    name: str
    argv: tuple[str, ...]
    log_path: Path
    stop_signal: signal.Signals
    uid: int | None = None
    gid: int | None = None
    lock_fd: int | None = None


class Child:
    """A running command. It must be started on a thread that lives as long as it: the event loop's."""

    def __init__(self, command: Command, process: Process, log_start: int) -> None:
        self.command, self.pid = command, process.pid
        self._process, self._log_start = process, log_start

    @classmethod
    async def start(cls, command: Command) -> Child:
        """Starts the command; whether it became ready is for `until_ready`.

        A session of its own keeps a Ctrl-C in the terminal from reaching it before the parent has stopped.
        """
        lock = "-" if command.lock_fd is None else str(command.lock_fd)
        gid = command.uid if command.gid is None else command.gid
        uid = "-" if command.uid is None else f"{command.uid}:{gid}"
        launcher = ("-I", "-S", str(_LAUNCHER), str(os.getpid()), lock, str(int(command.stop_signal)), uid)
        with _open_log(command.log_path) as log:
            began_at = log.tell()  # before the child writes: the place in the file is shared with it
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *launcher,
                *command.argv,
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                cwd="/",  # the parent's folder may be closed to the child's user
                env=_environment(),
                start_new_session=True,
                pass_fds=() if command.lock_fd is None else (command.lock_fd,),
            )
            return cls(command, process, began_at)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        return await self._process.wait()

    async def stop(self, timeout_s: float) -> None:
        """Ends it: the stop signal, and SIGKILL when it takes longer than `timeout_s`."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(self.command.stop_signal)
        try:
            await in_time(self.wait(), timeout_s)
        except TimeoutError:
            logger.warning("%s did not stop in %g s: killed", self.command.name, timeout_s)
            await self.kill()

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def obituary(self) -> str:
        code = self._process.returncode
        ending = "still runs" if code is None else how_it_ended(code)
        lines = _last_lines(self.command.log_path, self._log_start)
        tail = "".join(f"\n    {line}" for line in lines) or " (it logged nothing)"
        return f"{self.command.name} {ending}; log {self.command.log_path}:{tail}"


def how_it_ended(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


async def until_ready(child: Child, probe: Callable[[], Awaitable[bool]], timeout_s: float) -> None:
    """Returns when the probe says so; EngineError when the child ends first or takes too long."""
    try:
        async with asyncio.timeout(timeout_s):
            while not await probe():
                if not child.alive:
                    raise EngineError(child.obituary())
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise EngineError(f"not ready in {timeout_s:g} s: {child.obituary()}") from error


async def run_to_end(command: Command, timeout_s: float) -> None:
    child = await Child.start(command)
    try:
        code = await in_time(child.wait(), timeout_s)
    except TimeoutError as error:
        raise EngineError(f"not done in {timeout_s:g} s: {child.obituary()}") from error
    finally:
        if child.alive:
            await child.stop(timeout_s=5)
    if code != 0:
        raise EngineError(child.obituary())


def _environment() -> dict[str, str]:
    """Little on purpose: a server reads PGPORT, LANG and their like, and must not depend on the caller's."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    if libraries := os.environ.get("LD_LIBRARY_PATH"):
        environment["LD_LIBRARY_PATH"] = libraries
    return environment


def _open_log(path: Path) -> BinaryIO:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_LIMIT_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    try:
        log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
    except OSError as error:
        raise EngineError(f"cannot write the log {path}: {error.strerror}") from error
    log.seek(0, os.SEEK_END)
    return log


def _last_lines(path: Path, start: int) -> list[str]:
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start, size - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return []


_LOCK_POLL_S, _WATCH_S = 0.05, 0.1
_ORPHAN_PATIENCE_S = 20.0
_START_TIMEOUT_S, _STOP_TIMEOUT_S, _STEADY_S = 60.0, 30.0, 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0


class Engine(ABC):
    """A server that can be started and stopped any number of times at the same address with the same data.

    Each kind of server is a class of its own: it says under which names its sockets are, and below how many free
    bytes on the disk of its `folder` it is held, with which effect. `owner` is the uid that it runs as.
    """

    name: str
    socket_names: tuple[str, ...]

    def __init__(self, data_dir: Path, folder: Path, *, owner: int, least_bytes: int, effect: str) -> None:
        self.folder = folder
        self.space = DiskSpace(name=self.name, folder=folder, least_bytes=least_bytes, effect=effect)
        self.log_path = data_dir / f"{self.name}.log"
        self.sockets, self._owner = socket_folder(data_dir, owner), owner
        self._transition = asyncio.Lock()  # a start, a stop and a restart never overlap
        self._lock: FolderLock | None = None
        self._child: Child | None = None
        self._wanted = False
        self._started_at = 0.0

    @property
    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    async def prepare(self, lock_fd: int) -> Command:
        """Makes all that a start needs but the folder of its sockets (a new database) and says what to run."""

    @abstractmethod
    async def ready(self) -> bool:
        """Whether clients may come; makes what can only be made inside a running server."""

    @abstractmethod
    async def hold(self, *, held: bool) -> None:
        """Takes no writes while its disk is short (`held`); OSError when it is away."""

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def died(self) -> bool:
        return self._wanted and self.pid is None

    async def start(self) -> None:
        """Returns when it serves; nothing happens when it does already. EngineError when it cannot."""
        async with self._transition:
            if self.pid is None:
                await self._launch()
            self._wanted = True

    async def stop(self) -> None:
        self._wanted = False
        async with self._transition:
            if self._child is not None:
                await self._child.stop(_STOP_TIMEOUT_S)
                logger.info("%s stopped", self.name)
            self._child = None
            self._clear_away()

    async def keep_alive(self, on_restart: Callable[[], None]) -> None:
        """Restarts it whenever it dies, with growing pauses between failures; runs until cancelled."""
        backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        while True:
            await asyncio.sleep(_WATCH_S)
            if not self.died:
                if time.monotonic() - self._started_at > _STEADY_S:
                    backoff.reset()
                continue
            if self._child is not None:
                logger.error("it died and is restarted within %.1f s: %s", backoff.next_s, self._child.obituary())
            await backoff.wait()
            try:
                async with self._transition:
                    if self.died:  # not stopped, nor started, while we waited
                        await self._launch()
                        on_restart()
            except (EngineError, SettingsError, OSError) as error:  # the disk may be too full to note the restart
                logger.error("%s could not be restarted, or not noted: %s", self.name, error)  # noqa: TRY400

    async def _launch(self) -> None:
        began = time.monotonic()
        # Claimed anew at every start: sessions of a Postgres that was killed outlive it for a moment, and
        # share its lock, so that no second server meets them.
        if self._lock is not None:
            self._lock.release()
        self._lock = None
        self._lock = await self._claim()
        child: Child | None = None
        try:
            make_socket_folder(self.sockets, self._owner)
            child = await Child.start(await self.prepare(self._lock.fileno()))
            await until_ready(child, self.ready, _START_TIMEOUT_S)
        except BaseException:
            if child is not None:
                await child.kill()
            self._clear_away()
            raise
        self._child, self._started_at = child, time.monotonic()
        logger.info("%s serves as process %d after %.2f s", self.name, child.pid, self._started_at - began)

    def _clear_away(self) -> None:
        if self._lock is not None:  # without the lock the sockets may be an orphan's
            with contextlib.suppress(OSError):  # a folder that was refused is another's
                for name in self.socket_names:
                    (self.sockets / name).unlink(missing_ok=True)
                self.sockets.rmdir()
            self._lock.release()
            self._lock = None

    async def _claim(self) -> FolderLock:
        """The lock on the server's folder, once an orphan of a killed parent is gone.

        A server inherits its folder's lock, so while any process of it runs the lock is held. The data folder's
        lock is ours at this point: a process that still holds this one has lost its parent. The kernel has told
        it to end, and it gets 20 s.
        """
        deadline, is_told = time.monotonic() + _ORPHAN_PATIENCE_S, False
        while (lock := FolderLock.try_acquire(self.folder)) is None:
            pid = holder(self.folder)
            if time.monotonic() > deadline:
                raise EngineError(
                    f"{self.name} of an earlier run still uses {self.folder} (process {pid}); stop that process"
                )
            if not is_told:
                logger.warning("%s of an earlier run (process %s) still ends; waiting", self.name, pid)
                is_told = True
            await asyncio.sleep(_LOCK_POLL_S)  # flock has no waiting that the event loop could share
        return lock
