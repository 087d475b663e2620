"""A child process: started apart from the terminal, tied to the parent's life, logged to a file, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orion_recall.errors import EngineError

logger = logging.getLogger("orion_recall.engines")

_LAUNCHER = Path(__file__).with_name("launch.py")
_POLL_S = 0.02
_LOG_LIMIT_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run, and how it is stopped.

    `stop_signal` asks for a clean end; the kernel sends it too when the parent dies. `uid` is the user to
    become (only root can), and `gid` its group if that has another number. `lock_fd` is a folder lock's descriptor
    that the child holds for as long as it lives.
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
        self.command = command
        self._process = process
        self._log_start = log_start

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
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs, as far as the event loop has heard."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """The exit code, once it has ended; negative: the signal that ended it."""
        return await self._process.wait()

    async def stop(self, timeout_s: float) -> None:
        """Ends it: the stop signal, and SIGKILL when it takes longer than `timeout_s`."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(self.command.stop_signal)
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            logger.warning("%s did not stop in %g s: killed", self.command.name, timeout_s)
            await self.kill()

    async def kill(self) -> None:
        """Ends it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def obituary(self) -> str:
        """One sentence on how it ended, then the last lines that it logged."""
        code = self._process.returncode
        if code is None:
            ending = "still runs"
        else:
            ending = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        lines = _last_lines(self.command.log_path, self._log_start)
        tail = "".join(f"\n    {line}" for line in lines) or " (it logged nothing)"
        return f"{self.command.name} {ending}; log {self.command.log_path}:{tail}"


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
    """Runs a command that ends by itself; EngineError when it fails or takes too long."""
    child = await Child.start(command)
    try:
        async with asyncio.timeout(timeout_s):
            code = await child.wait()
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
    """The log file at its end. A log that has grown large is set aside first, over the one before it."""
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
