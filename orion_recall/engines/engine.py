"""The life cycle of one embedded server: lock its folder, start, watch, restart, stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from orion_recall.backoff import Backoff
from orion_recall.engines.child import Child, Command, until_ready
from orion_recall.engines.lock import LOCK_NAME, FolderLock, holder
from orion_recall.errors import EngineError

logger = logging.getLogger("orion_recall.engines")

_POLL_S = 0.05
_ORPHAN_PATIENCE_S = 10.0
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_WATCH_S = 0.1
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0
_STEADY_S = 30.0


class Server(Protocol):
    """The definition of one kind of server: how it is started and checked."""

    @property
    def name(self) -> str:
        """One word for logs and addresses."""
        ...

    @property
    def folder(self) -> Path:
        """Its own folder inside the data folder."""
        ...

    @property
    def address(self) -> str:
        """The URL or DSN; the same in every run on the same folder."""
        ...

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that asks for a clean end."""
        ...

    async def prepare(self, lock_fd: int) -> Command:
        """Makes all that a start needs (folders, a new database) and says what to run."""
        ...

    async def ready(self) -> bool:
        """Whether clients may come; makes what can only be made inside a running server."""
        ...

    def tidy(self) -> None:
        """Removes what has no use after the server's end, however it ended."""
        ...


class Engine:
    """A server that can be started and stopped any number of times at the same address with the same data."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transition = asyncio.Lock()  # a start, a stop and a restart never overlap
        self._lock: FolderLock | None = None
        self._child: Child | None = None
        self._wanted = False
        self._started_at = 0.0

    @property
    def name(self) -> str:
        """One word: valkey, postgres."""
        return self._server.name

    @property
    def address(self) -> str:
        """The URL or DSN, also while it is stopped."""
        return self._server.address

    @property
    def pid(self) -> int | None:
        """The process id, or None while it does not run."""
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def died(self) -> bool:
        """Whether it ended without being asked to."""
        return self._wanted and self.pid is None

    async def start(self) -> None:
        """Returns when it serves; nothing happens when it does already. EngineError when it cannot."""
        async with self._transition:
            if self.pid is None:
                await self._launch()
            self._wanted = True

    async def stop(self) -> None:
        """Returns when it has ended; nothing happens when it has already."""
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
        is_told = True
        while True:
            await asyncio.sleep(_WATCH_S)
            is_told = is_told or self._told(on_restart)
            if not self.died:
                if time.monotonic() - self._started_at > _STEADY_S:
                    backoff.reset()
                continue
            if self._child is not None:
                logger.error("it died and is restarted within %.1f s: %s", backoff.next_s, self._child.obituary())
            await backoff.wait()
            try:
                restarted = await self._revive()
            except (EngineError, OSError) as error:
                logger.error("%s could not be restarted: %s", self.name, error)  # noqa: TRY400
            else:
                is_told = not restarted or self._told(on_restart)

    def _told(self, on_restart: Callable[[], None]) -> bool:
        """Whether the restart could be told: where it is written, the disk may be full. It is tried again."""
        try:
            on_restart()
        except OSError as error:
            logger.error("%s runs again, which cannot be told yet: %s", self.name, error)  # noqa: TRY400
            return False
        return True

    async def _revive(self) -> bool:
        async with self._transition:
            if not self.died:  # stopped, or started, while we waited
                return False
            await self._launch()
            return True

    async def _launch(self) -> None:
        began = time.monotonic()
        # Claimed anew at every start: sessions of a Postgres that was killed outlive it for a moment, and
        # share its lock, so that no second server meets them.
        self._release()
        self._lock = await _claim(self._server)
        try:
            self._child = await self._spawn(self._lock.fileno())
        except BaseException:
            self._clear_away()
            raise
        self._started_at = time.monotonic()
        took_s = self._started_at - began
        logger.info("%s serves as process %d after %.2f s", self.name, self._child.pid, took_s)

    async def _spawn(self, lock_fd: int) -> Child:
        """A child that serves; nothing is left of one that does not come so far."""
        child = await Child.start(await self._server.prepare(lock_fd))
        try:
            await until_ready(child, self._server.ready, _START_TIMEOUT_S)
        except BaseException:
            await child.kill()
            raise
        return child

    def _clear_away(self) -> None:
        if self._lock is not None:  # without the lock the sockets may be an orphan's
            self._server.tidy()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


async def _claim(server: Server) -> FolderLock:
    """The lock on the server's folder, once an orphan of a killed parent is gone.

    A server inherits its folder's lock, so while any process of it runs the lock is held. The data folder's
    lock is ours at this point: a process that still holds this one has lost its parent. It gets 10 s to notice and
    end, then the stop signal and as long again.
    """
    lock = await _await_lock(server.folder, 0)
    if lock is not None:
        return lock
    pid = holder(server.folder)
    logger.warning("%s of an earlier run (process %s) still ends; waiting", server.name, pid)
    lock = await _await_lock(server.folder, _ORPHAN_PATIENCE_S)
    if lock is None and pid is not None and _has_open(pid, server.folder / LOCK_NAME):
        logger.warning("%s of an earlier run (process %d) is told to stop", server.name, pid)
        os.kill(pid, server.stop_signal)
        lock = await _await_lock(server.folder, _ORPHAN_PATIENCE_S)
    if lock is None:
        raise EngineError(
            f"{server.name} of an earlier run still uses {server.folder} (process {pid}); stop that process"
        )
    return lock


async def _await_lock(folder: Path, timeout_s: float) -> FolderLock | None:
    deadline = time.monotonic() + timeout_s
    lock = FolderLock.try_acquire(folder)
    while lock is None and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)  # flock has no waiting that the event loop could share
        lock = FolderLock.try_acquire(folder)
    return lock


def _has_open(pid: int, path: Path) -> bool:
    """Whether that process has the file open: guards against signalling a stranger with a reused pid."""
    try:
        wanted = path.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            found = descriptor.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False
