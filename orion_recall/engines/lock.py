"""Folder lock: an flock on `<folder>/.lock`, released when the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from orion_recall.errors import EngineError

LOCK_NAME = ".lock"


class FolderLock:
    """A held lock, from `acquire`; it ends with `release`, with the block, or with the process."""

    def __init__(self, folder: Path, fd: int) -> None:
        self.folder = folder
        self._fd = fd

    @classmethod
    def acquire(cls, folder: Path, what: str, hint: str) -> FolderLock:
        """The lock on the folder, which is made (mode 700) when it is absent; EngineError when it cannot be had.

        `what` begins the error's sentence ("the index folder"), `hint` ends it ("or set ORION_QDRANT_URL").
        """
        lock = cls.try_acquire(folder)
        if lock is not None:
            return lock
        pid = holder(folder)
        if pid == os.getpid():
            raise EngineError(f"{what} {folder} is already open in this process; close it first, {hint}")
        by = f"process {pid}" if pid else "another process"
        raise EngineError(f"{what} {folder} is used by {by}; stop it, {hint}")

    @classmethod
    def try_acquire(cls, folder: Path) -> FolderLock | None:
        """The lock, or None when it is held. EngineError when the folder cannot be written."""
        # O_NOFOLLOW: the folder may belong to a less trusted user than this process.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / LOCK_NAME, flags, 0o600)
        except OSError as error:
            raise EngineError(f"cannot use the folder {folder}: {error.strerror} ({error.filename})") from error
        what = f"the file system of {folder} cannot lock files"
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            what = f"cannot write into {folder / LOCK_NAME}"
            write_holder(fd, os.getpid())
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:  # as a full disk; an open descriptor would hold the lock
            os.close(fd)
            raise EngineError(f"{what}: {error.strerror}") from error
        return cls(folder, fd)

    def fileno(self) -> int:
        """The descriptor that carries the lock: a child that inherits it holds the lock as well."""
        if self._fd < 0:
            raise ValueError(f"the lock on {self.folder} is released")
        return self._fd

    def release(self) -> None:
        """Gives this process's share up; twice does no harm."""
        # Not LOCK_UN, which would take the lock from a child that inherited it. The file stays: else two processes
        # could lock two files of one name.
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def held_by(folder: Path) -> int | None:
    """The pid of the process that holds the folder now, None when nobody does. The lock is left to others."""
    pid = holder(folder)
    if pid is None or (Path("/proc/self").exists() and not Path(f"/proc/{pid}").exists()):
        return None  # not asked of the lock itself: that would take it for a moment, from one who wants it
    try:
        fd = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return pid
    except OSError:
        return None
    finally:
        os.close(fd)
    return None


def write_holder(fd: int, pid: int) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{pid}\n".encode(), 0)


def holder(folder: Path) -> int | None:
    """The pid in the lock file: of the holder, or of the last one. None when it cannot be read."""
    try:
        return int((folder / LOCK_NAME).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
