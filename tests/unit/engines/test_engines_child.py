from __future__ import annotations

import asyncio
import os
import signal
import time
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


async def test_a_death_at_start_is_told_with_code_and_last_lines(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"(?s)shell ended with code 3; log .*shell\.log:.*no such option"):
        await run_to_end(shell(tmp_path, "echo no such option >&2; exit 3"), 10)


async def test_the_lines_of_an_earlier_run_are_not_told_again(tmp_path: Path) -> None:
    await run_to_end(shell(tmp_path, "echo old"), 10)
    with pytest.raises(EngineError) as caught:
        await run_to_end(shell(tmp_path, "echo new; exit 1"), 10)
    assert "new" in str(caught.value)
    assert "old" not in str(caught.value)
    assert (tmp_path / "shell.log").read_text() == "old\nnew\n"


async def test_a_death_before_ready_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    child = await Child.start(shell(tmp_path, "kill -9 $$"))
    with pytest.raises(EngineError, match="was ended by signal 9"):
        await until_ready(child, never, 30)


async def test_a_child_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    child = await Child.start(shell(tmp_path, "echo thinking; exec sleep 60"))
    await has_logged(child, "thinking")
    with pytest.raises(EngineError, match=r"(?s)not ready in 0\.05 s: shell still runs.*thinking"):
        await has_logged(child, "never logged", 0.05)
    await child.kill()


async def test_a_command_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"not done in 0\.2 s"):
        await run_to_end(shell(tmp_path, "exec sleep 60"), 0.2)
    assert time.monotonic() - began < 20


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


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = Command(name="ghost", argv=("/no/such/ghost",), log_path=tmp_path / "log", stop_signal=signal.SIGTERM)
    with pytest.raises(EngineError, match=r"(?s)ghost ended with code 126.*cannot run /no/such/ghost"):
        await run_to_end(command, 10)


async def test_a_log_that_cannot_be_written_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot write the log"):
        await Child.start(shell(tmp_path / "absent", "true"))


async def test_a_log_that_has_grown_large_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "shell.log"
    with log.open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    await run_to_end(shell(tmp_path, "echo fresh"), 10)
    assert log.read_text() == "fresh\n"
    assert (tmp_path / "shell.log.1").stat().st_size == 9 * 1024 * 1024


async def test_a_ctrl_c_in_the_terminal_does_not_reach_the_child(tmp_path: Path) -> None:
    child = await Child.start(shell(tmp_path, "exec sleep 60"))
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    await child.kill()


async def test_the_callers_environment_does_not_steer_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "7777")
    await run_to_end(shell(tmp_path, 'echo "port ${PGPORT-unset}"; umask; pwd'), 10)
    assert (tmp_path / "shell.log").read_text() == "port unset\n0077\n/\n"


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


async def test_children_run_side_by_side(tmp_path: Path) -> None:
    children = await asyncio.gather(*(Child.start(shell(tmp_path, "exec sleep 60")) for _ in range(3)))
    assert len({child.pid for child in children}) == 3
    await asyncio.gather(*(child.kill() for child in children))
