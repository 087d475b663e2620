"""What is left behind when things end badly, and that the next start copes with it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orion_recall.engines.embedded import EmbeddedEngines, read_addresses
from orion_recall.engines.lock import FolderLock, write_holder
from orion_recall.engines.postgres_folder import closed_folder
from orion_recall.errors import EngineError
from tests.stand_ins.ports import is_alive

pytestmark = pytest.mark.slow

NOBODY = 65534

_PARENT = """
import asyncio, json, sys
from pathlib import Path
from orion_recall.engines.embedded import EmbeddedEngines

async def main():
    async with EmbeddedEngines.start(Path(sys.argv[1])) as engines:
        print(json.dumps(engines.pids), flush=True)
        if sys.argv[2:] != ["brief"]:
            await asyncio.Event().wait()

asyncio.run(main())
"""


async def until(predicate: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        await asyncio.sleep(0.02)


def parent(
    *arguments: str, python: str = sys.executable, path: Sequence[str | Path] = sys.path, uid: int | None = None
) -> subprocess.Popen[str]:
    """A process of its own that owns engines."""
    return subprocess.Popen(
        [python, "-c", _PARENT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(str(entry) for entry in path)},
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )


def is_free(folder: Path) -> bool:
    """Whether no process of an engine, sessions included, holds the folder's lock."""
    lock = FolderLock.try_acquire(folder)
    if lock is None:
        return False
    lock.release()
    return True


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_parent_leaves_no_engine_and_the_next_start_works(
    data_dir: Path, ending: signal.Signals
) -> None:
    with parent(str(data_dir)) as process:
        assert process.stdout is not None
        pids: dict[str, int] = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert sorted(pids) == ["postgres", "valkey"]
        with pytest.raises(EngineError, match=rf"{data_dir} is used by process {process.pid};"):
            async with EmbeddedEngines.start(data_dir):
                pass
        assert read_addresses(data_dir) is not None
        process.send_signal(ending)
        await asyncio.to_thread(process.wait)
    await until(lambda: all(not is_alive(pid) for pid in pids.values()), "the engines have ended")
    await until(lambda: is_free(data_dir / "postgres"), "no session of Postgres is left")
    assert read_addresses(data_dir) is None
    async with EmbeddedEngines.start(data_dir) as engines:
        assert not set(engines.pids.values()) & set(pids.values())


async def test_a_start_right_after_the_kill_waits_for_the_engines_to_end(data_dir: Path) -> None:
    with parent(str(data_dir)) as process:
        assert process.stdout is not None
        pids: dict[str, int] = json.loads(await asyncio.to_thread(process.stdout.readline))
        os.kill(pids["postgres"], signal.SIGSTOP)  # a server that takes its time
        process.kill()
        await asyncio.to_thread(process.wait)

    async def start() -> None:
        async with EmbeddedEngines.start(data_dir) as engines:
            assert engines.pids["postgres"] != pids["postgres"]

    starting = asyncio.create_task(start())
    await until(lambda: not is_alive(pids["valkey"]), "Valkey has ended")
    assert is_alive(pids["postgres"])
    os.kill(pids["postgres"], signal.SIGCONT)
    await starting


async def test_a_stranger_with_the_orphans_pid_is_left_alone(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.engines.engine._ORPHAN_PATIENCE_S", 0.1)
    with (
        FolderLock.acquire(data_dir / "valkey", "the folder", "") as lock,
        subprocess.Popen(["sleep", "60"]) as stranger,
    ):
        write_holder(lock.fileno(), stranger.pid)
        with pytest.raises(EngineError, match=rf"earlier run still uses .*/valkey \(process {stranger.pid}\)"):
            async with EmbeddedEngines.start(data_dir, postgres=False):
                pass
        assert stranger.poll() is None
        stranger.kill()


async def test_pid_files_of_the_dead_and_half_made_databases_do_not_block_a_start(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir, valkey=False):
        pass
    cluster, unfinished = data_dir / "postgres" / "cluster", data_dir / "postgres" / "new-1"
    (cluster / "postmaster.pid").write_text(f"{os.getpid()}\n{cluster}\n")  # alive, but no Postgres
    (unfinished / "base").mkdir(parents=True)
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert engines.pids
    assert not unfinished.exists()


async def test_a_server_that_others_started_in_the_folder_is_not_disturbed(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir, valkey=False):
        pass
    cluster = data_dir / "postgres" / "cluster"
    with subprocess.Popen(["sleep", "60"], cwd=cluster) as foreign:
        (cluster / "postmaster.pid").write_text(f"{foreign.pid}\n{cluster}\n")
        with pytest.raises(EngineError, match=rf"already runs on .*process {foreign.pid}"):
            async with EmbeddedEngines.start(data_dir, valkey=False):
                pass
        foreign.kill()
    assert (cluster / "postmaster.pid").exists()


def python_for(uid: int) -> tuple[str, list[str | Path]]:
    """An interpreter of this version and a search path that the user can reach, or a skipped test."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin:/bin")]
    pythons = [python for python in found if python and closed_folder(Path(python), uid, uid) is None]
    packages: list[str | Path] = [entry for entry in sys.path if Path(entry, "asyncpg").is_dir()]
    source = Path(sys.modules[FolderLock.__module__].__file__ or "").parents[2]
    closed = [closed_folder(Path(entry, "x"), uid, uid) for entry in (*packages, source)]
    if not pythons or any(closed):
        pytest.skip(f"uid {uid} can reach no {version} or not the packages")
    return pythons[0], [*packages, source]


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests ran as a plain user already")
async def test_a_plain_user_runs_both_engines_on_a_folder_of_its_own(data_dir: Path) -> None:
    python, path = python_for(NOBODY)
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, NOBODY, NOBODY)

    async def run_briefly() -> None:
        with parent(str(data_dir), "brief", python=python, path=path, uid=NOBODY) as process:
            output, problems = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, problems
        assert sorted(json.loads(output)) == ["postgres", "valkey"]

    await run_briefly()
    assert {entry.stat().st_uid for entry in data_dir.iterdir()} == {NOBODY}
    with parent(str(data_dir), python=python, path=path, uid=NOBODY) as process:
        assert process.stdout is not None
        pids: dict[str, int] = json.loads(await asyncio.to_thread(process.stdout.readline))
        process.kill()
    await until(lambda: all(not is_alive(pid) for pid in pids.values()), "the engines have ended")
    await run_briefly()
