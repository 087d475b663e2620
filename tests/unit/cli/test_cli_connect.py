"""What commands connect to: addresses, ids by their beginning, and engines of a folder that nobody serves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orion_recall.cli import addresses
from orion_recall.cli.addresses import bus_of, dsn_of, dsn_without_secrets, find, find_started, record_of
from orion_recall.cli.decisions import whole_id
from orion_recall.cli.output import NotFound, note
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
    note = Addresses(owner_pid=os.getpid(), redis_url=redis_url, postgres_dsn=dsn, pids={})
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


def test_an_up_that_is_starting_is_waited_for_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ready_once_it_is_told(text: str) -> None:
        note(text)
        running(tmp_path)

    monkeypatch.setattr(addresses, "note", ready_once_it_is_told)
    with FolderLock.acquire(tmp_path, "the data folder", ""):
        with pytest.raises(SettingsError, match=f"no bus yet: process {os.getpid()} is starting its engines"):
            bus_of(find(tmp_path))
        assert find_started(tmp_path).bus_url == "unix:///up.sock"
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


async def starting(prefix: str, limit: int) -> list[str]:
    """Ids of decisions that begin so."""
    return [one for one in ("875a5172", *(f"9900{n}" for n in range(9))) if one.startswith(prefix)][:limit]


async def test_a_decisions_id_may_be_given_by_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert await whole_id("875a", starting) == "875a5172"
    assert capsys.readouterr().err == "875a is 875a5172\n"
    for none in ("875", "", "1234"):
        with pytest.raises(NotFound, match="there is no decision"):
            await whole_id(none, starting)
    with pytest.raises(SettingsError, match=r"several decision ids: 99000, 99001, .*, and more; give more"):
        await whole_id("9900", starting)


async def test_a_folder_whose_database_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(tmp_path / "gone")
    settings = Settings.read(data_dir=tmp_path, postgres_dsn=None)
    with pytest.raises(EngineError, match=r"postgres is a link to .*/gone, which is not there: bring .* back"):
        async with record_of(settings):
            pass
