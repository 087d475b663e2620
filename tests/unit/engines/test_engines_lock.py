from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orion_recall.engines.lock import LOCK_NAME, FolderLock, held_by, holder
from orion_recall.errors import EngineError

_HOLD = """
import sys
from pathlib import Path
from orion_recall.engines.lock import FolderLock
lock = FolderLock.acquire(Path(sys.argv[1]), "the index folder", "")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder: Path) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_owner_is_refused_with_the_holders_pid_and_the_hint(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process, pytest.raises(EngineError) as caught:
        FolderLock.acquire(tmp_path, "the index folder", "or set ORION_QDRANT_URL")
    assert str(caught.value) == (
        f"the index folder {tmp_path} is used by process {process.pid}; stop it, or set ORION_QDRANT_URL"
    )


def test_the_lock_dies_with_a_killed_process(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        assert FolderLock.try_acquire(tmp_path) is None
        process.kill()
        process.wait()
        lock = FolderLock.try_acquire(tmp_path)
    assert lock is not None
    lock.release()


def test_a_released_folder_can_be_taken_again(tmp_path: Path) -> None:
    with FolderLock.acquire(tmp_path, "the folder", "") as first:
        pass
    first.release()
    with FolderLock.acquire(tmp_path, "the folder", "") as second:
        assert second.folder == tmp_path
        assert holder(tmp_path) == os.getpid()


def test_a_child_that_inherits_the_descriptor_keeps_the_lock(tmp_path: Path) -> None:
    lock = FolderLock.acquire(tmp_path, "the folder", "")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.fileno(),)) as child:
        lock.release()
        assert FolderLock.try_acquire(tmp_path) is None
        child.kill()
    again = FolderLock.try_acquire(tmp_path)
    assert again is not None
    again.release()


def test_folder_and_lock_file_are_made_for_their_owner_only(tmp_path: Path) -> None:
    with FolderLock.acquire(tmp_path / "a" / "b", "the folder", ""):
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "a" / "b" / LOCK_NAME).stat().st_mode) == 0o600


def test_a_link_in_the_lock_files_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / LOCK_NAME).symlink_to(target)
    with pytest.raises(EngineError, match="cannot use the folder"):
        FolderLock.acquire(tmp_path, "the folder", "")
    assert target.read_text() == "kept"


def test_who_holds_a_folder_is_seen_without_touching_the_lock(tmp_path: Path) -> None:
    assert held_by(tmp_path) is None
    assert not (tmp_path / LOCK_NAME).exists()
    with held_elsewhere(tmp_path) as process:
        assert held_by(tmp_path) == process.pid
    assert holder(tmp_path) == process.pid
    assert held_by(tmp_path) is None, "it has ended"
    with FolderLock.acquire(tmp_path, "the index folder", ""):
        assert held_by(tmp_path) == os.getpid()
    assert held_by(tmp_path) is None, "it lives and has let go"
