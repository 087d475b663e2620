"""Processes of engines: started, watched, stopped, and found by others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orion_recall.engines.engine import Child, Command, run_to_end, until_ready
from orion_recall.engines.lock import FolderLock, holder
from orion_recall.errors import EngineError


def shell(tmp_path: Path, script: str, **changes: int) -> Command:
    return Command(
        name="shell",
        argv=("/bin/sh", "-c", script),
        log_path=tmp_path / "shell.log",
        stop_signal=signal.SIGTERM,
        uid=changes.get("uid"),
        lock_fd=changes.get("lock_fd"),
    )


async def has_logged(child: Child, text: str, timeout_s: float = 10) -> None:
    async def probe() -> bool:
        return text in child.command.log_path.read_text()

    await until_ready(child, probe, timeout_s)


async def test_a_child_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    child = await Child.start(shell(tmp_path, "echo thinking; exec sleep 60"))
    await has_logged(child, "thinking")
    with pytest.raises(EngineError, match=r"(?s)not ready in 0\.05 s: shell still runs.*thinking"):
        await has_logged(child, "never logged", 0.05)
    await child.kill()


async def test_a_child_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    child = await Child.start(shell(tmp_path, "trap '' TERM; echo up; exec sleep 60"))
    await has_logged(child, "up")
    await child.stop(0.1)
    assert await child.wait() == -signal.SIGKILL


async def test_the_child_holds_the_lock_and_its_file_has_the_childs_pid(tmp_path: Path) -> None:
    lock = FolderLock.acquire(tmp_path, "the folder", "")
    child = await Child.start(shell(tmp_path, "echo up; exec sleep 60", lock_fd=lock.fileno()))
    await has_logged(child, "up")
    lock.release()
    assert FolderLock.try_acquire(tmp_path) is None
    assert holder(tmp_path) == child.pid
    await child.kill()
    with FolderLock.acquire(tmp_path, "the folder", ""):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_root_becomes_the_other_user_without_roots_groups(tmp_path: Path) -> None:
    await run_to_end(shell(tmp_path, "id -u; id -g; id -G", uid=65534), 10)
    assert (tmp_path / "shell.log").read_text() == "65534\n65534\n65534\n"
