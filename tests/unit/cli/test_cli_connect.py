"""What commands connect to: addresses, ids by their beginning, and engines of a folder that nobody serves."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orion_recall.cli.connect import addresses
from orion_recall.cli.connect.addresses import bus_of, dsn_of, dsn_without_secrets, find, find_started, open_bus
from orion_recall.cli.connect.ids import full_id
from orion_recall.cli.connect.record import with_record
from orion_recall.engines.embedded import Addresses, write_addresses
from orion_recall.engines.lock import FolderLock, held_by
from orion_recall.errors import EngineError, SettingsError
from orion_recall.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("ORION_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield
    while _HELD:
        _HELD.pop().release()


_HELD: list[FolderLock] = []


def running(
    folder: Path, *, redis_url: str | None = "unix:///up.sock", dsn: str | None = "postgresql:///up"
) -> Path:
    """A folder on which this process says it runs engines."""
    folder.mkdir(exist_ok=True)
    note = Addresses(
        owner_pid=os.getpid(),
        redis_url=redis_url,
        postgres_dsn=dsn,
        pids={},
    )
    write_addresses(folder, note)
    if held_by(folder) is None:
        _HELD.append(FolderLock.acquire(folder, "the folder", ""))
    return folder


def test_without_anything_the_error_says_both_ways(tmp_path: Path) -> None:
    settings = find(tmp_path / "none")
    with pytest.raises(SettingsError, match=r"no bus: start `orion-recall up` .*none.*or set ORION_REDIS_URL"):
        bus_of(settings)
    with pytest.raises(SettingsError, match="ORION_POSTGRES_DSN"):
        dsn_of(settings)


def test_a_running_up_is_found_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = running(tmp_path / "data")
    assert (find(folder).bus_url, find(folder).dsn) == ("unix:///up.sock", "postgresql:///up")
    assert find(None).bus_url is None
    monkeypatch.setenv("ORION_DATA_DIR", str(folder))
    assert find(None).bus_url == "unix:///up.sock"
    monkeypatch.delenv("ORION_DATA_DIR")
    folder.rename(tmp_path / ".orion")
    assert find(None).bus_url == "unix:///up.sock"


def test_the_environment_wins_and_takes_no_postgres_of_another_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = running(tmp_path / "data")
    monkeypatch.setenv("ORION_REDIS_URL", "redis://bus")
    assert (find(folder).bus_url, find(folder).dsn) == ("redis://bus", None)
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://db/x")
    assert (find(folder).bus_url, find(folder).dsn) == ("redis://bus", "postgresql://db/x")
    monkeypatch.delenv("ORION_REDIS_URL")
    assert (find(folder).bus_url, find(folder).dsn) == ("unix:///up.sock", "postgresql://db/x")


async def test_a_bus_address_that_cannot_be_read_is_a_settings_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_REDIS_URL", "redis://bus:port/0")
    with pytest.raises(SettingsError, match="ORION_REDIS_URL"):
        async with open_bus(find(None)):
            pass


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:hunter2@db:5432/orion", "postgresql://db:5432/orion"),
        ("postgresql://db/orion?password=hunter2&sslmode=require", "postgresql://db/orion?sslmode=require"),
        ("postgresql://o@/orion?host=/tmp/s&port=5432", "postgresql:///orion?host=/tmp/s&port=5432"),
    ],
)
def test_a_dsn_is_shown_without_its_secrets(dsn: str, shown: str) -> None:
    assert dsn_without_secrets(dsn) == shown


def test_an_up_that_is_starting_is_waited_for_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FolderLock.acquire(tmp_path, "the data folder", ""):
        with pytest.raises(SettingsError, match=f"no bus yet: process {os.getpid()} is starting its engines"):
            bus_of(find(tmp_path))
        ready = threading.Timer(0.3, running, [tmp_path])
        ready.start()
        assert find_started(tmp_path).bus_url == "unix:///up.sock"
        ready.join()
    assert capsys.readouterr().err.count("waiting for `orion-recall up`") == 1


def test_an_up_that_never_gets_ready_or_is_not_there_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_LONGEST_START_S", 0.2)
    monkeypatch.setattr(addresses, "_CALLED_JUST_NOW_S", 0.2)
    with FolderLock.acquire(tmp_path / "busy", "the data folder", ""):
        assert find_started(tmp_path / "busy").bus_url is None
    assert find_started(tmp_path / "none").bus_url is None
    assert not (tmp_path / "none").exists(), "who only looks makes nothing"


class Ids:
    """Ids that are looked up by their beginning."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids

    async def starting(self, prefix: str, limit: int) -> list[str]:
        """Those that begin so, the equal one first."""
        return sorted((one for one in self._ids if one.startswith(prefix)), key=lambda one: one != prefix)[:limit]


async def test_a_prefix_that_one_id_has_is_that_id_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await full_id("memory", "m-12", Ids("m-1234567", "m-99").starting) == "m-1234567"
    assert capsys.readouterr().err == "m-12 is m-1234567\n"


async def test_a_whole_id_is_itself_though_others_begin_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await full_id("memory", "m-12", Ids("m-12", "m-123", "m-124").starting) == "m-12"
    assert await full_id("memory", "a", Ids("a", "ab").starting) == "a"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("given", ["m-1", "m", "", "x-1234"])
async def test_a_prefix_that_is_too_short_or_that_no_id_has_is_none(given: str) -> None:
    assert await full_id("memory", given, Ids("m-1234567").starting) is None


async def test_a_prefix_of_several_ids_is_refused_with_up_to_five_of_them() -> None:
    names = [f"m-12{number}" for number in range(9)]
    with pytest.raises(SettingsError, match=r"'m-12' is the beginning of several memory ids") as few:
        await full_id("memory", "m-12", Ids(*names[:2]).starting)
    assert str(few.value).endswith(": m-120, m-121; give more characters")
    with pytest.raises(SettingsError, match=r"m-120, m-121, m-122, m-123, m-124, and more; give more characters"):
        await full_id("memory", "m-12", Ids(*names).starting)


async def test_a_folder_whose_database_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(tmp_path / "gone")
    settings = Settings.read(data_dir=tmp_path, postgres_dsn=None)
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(EngineError, match=r"postgres is a link to .*/gone, which is not there: bring .* back"):
            await with_record(settings, stack)
