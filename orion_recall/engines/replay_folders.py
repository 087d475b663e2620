"""Folders of replays: copies of index and graph as they were, with texts of memories, deleted when a replay ends.

Each is locked by its process. What a killed one has left is deleted by the next replay, and by forgetting.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError

_PREFIX = "orion-replay-"
# Threads that were cancelled may write another file while the folder is deleted.
_PAUSES_S = (0.05, 0.2, 1.0, 2.0)


@contextlib.contextmanager
def replay_folder(data_dir: Path) -> Generator[Path]:
    """An empty folder for the block: in the data folder where that can be written, else among temporary files."""
    delete_left(data_dir)
    lock = _made(data_dir)
    try:
        yield lock.folder
    finally:
        _delete(lock.folder)
        lock.release()


def delete_left(data_dir: Path) -> tuple[int, int]:
    """Deletes what killed replays have left; how many folders went, and how many belong to running ones."""
    gone, in_use = 0, 0
    for folder in _folders(data_dir):
        try:
            lock = FolderLock.try_acquire(folder)
        except EngineError:
            continue
        if lock is None:
            in_use += 1
            continue
        with lock:
            _delete(folder)
        gone += not folder.exists()
    return gone, in_use


def _made(data_dir: Path) -> FolderLock:
    while True:
        folder = _new(data_dir)
        lock = FolderLock.try_acquire(folder)
        # Another process that deletes what is left may have been faster than this lock.
        if lock is not None and os.fstat(lock.fileno()).st_nlink:
            return lock
        if lock is not None:
            lock.release()


def _new(data_dir: Path) -> Path:
    if data_dir.is_dir():
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=data_dir.resolve()))
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _folders(data_dir: Path) -> Iterator[Path]:
    for place in (data_dir, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            for folder in sorted(place.glob(f"{_PREFIX}*")):
                if folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid == os.geteuid():
                    yield folder


def _delete(folder: Path) -> None:
    for pause in _PAUSES_S:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(pause)
