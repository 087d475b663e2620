"""Processes of engines: started, watched, stopped, and found by others."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from orion_recall.engines.embedded import (
    ADDRESSES_NAME,
    Addresses,
    write_addresses,
)
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


async def test_stop_sends_the_stop_signal_first(tmp_path: Path) -> None:
    child = await Child.start(shell(tmp_path, "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep .1; done"))
    await has_logged(child, "up")
    assert child.alive
    await child.stop(10)
    assert not child.alive
    assert await child.wait() == 5
    assert "bye" in child.obituary()
    await child.stop(10)


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


def of_this_process() -> Addresses:
    return Addresses(
        owner_pid=os.getpid(),
        redis_url="unix:///run/valkey.sock",
        postgres_dsn=None,
        pids={"valkey": 7},
    )


def test_the_note_is_for_its_owner_only_and_leaves_no_work_file(tmp_path: Path) -> None:
    write_addresses(tmp_path, of_this_process())
    assert [path.name for path in tmp_path.iterdir()] == [ADDRESSES_NAME]
    assert stat.S_IMODE((tmp_path / ADDRESSES_NAME).stat().st_mode) == 0o600
