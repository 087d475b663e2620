from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orion_recall.engines.postgres_folder import database_folder
from orion_recall.errors import EngineError

STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands a folder to another user")


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that everybody may enter, with a home in it that only its owner may."""
    folder = Path(tempfile.mkdtemp(prefix="orion-database-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "data").mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def chosen(base: Path, data_dir: str = "home/data", uid: int | None = STRANGER) -> Path:
    return database_folder(base / data_dir, uid, base / "outside")


@as_root
@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_a_user_who_cannot_has_a_private_folder_outside_that_others_can_only_pass_by(
    base: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        folder = chosen(base)
    finally:
        os.umask(before)
    assert (base / "home" / "data" / "postgres").resolve() == folder
    assert folder.is_relative_to(base / "outside")
    owned = {path: (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in (folder, folder.parent)}
    assert owned == {folder: (STRANGER, 0o700), folder.parent: (0, 0o710)}
    assert stat.S_IMODE((base / "outside").stat().st_mode) == 0o755
    assert chosen(base) == folder, "the same one every time"
    assert len(list((base / "outside").iterdir())) == 1


@as_root
def test_a_database_that_is_gone_is_not_replaced_by_an_empty_one(base: Path) -> None:
    shutil.rmtree(chosen(base).parent)
    with pytest.raises(EngineError, match=r"is a link to .*/database, which is not there: bring that folder back"):
        chosen(base)


@as_root
def test_a_place_that_others_can_write_to_is_refused(base: Path) -> None:
    (base / "outside").mkdir()
    (base / "outside").chmod(0o777)
    with pytest.raises(EngineError, match="outside could be written by others"):
        chosen(base)
    (base / "outside").chmod(0o755)
    folder = chosen(base)
    (base / "outside").chmod(0o777)
    with pytest.raises(EngineError, match="outside could be written by others"):
        chosen(base)
    (base / "outside").chmod(0o755)
    folder.chmod(0o755)
    with pytest.raises(EngineError, match=r"is not a private folder of uid 54321 .*mode 755"):
        chosen(base)


@as_root
def test_where_nothing_can_be_placed_outside_the_error_says_what_blocks(base: Path) -> None:
    (base / "file").write_text("in the way")
    with pytest.raises(
        EngineError, match=r"cannot enter .*/home, and the database could not be placed under .*file"
    ):
        database_folder(base / "home" / "data", STRANGER, base / "file" / "outside")
    assert not (base / "home" / "data" / "postgres").is_symlink()


@as_root
def test_a_copied_data_folder_is_refused_and_a_moved_one_keeps_its_database(base: Path) -> None:
    folder = chosen(base)
    shutil.copytree(base / "home" / "data", base / "home" / "copy", symlinks=True)
    with pytest.raises(EngineError, match=r"/copy is a copy of .*/data, .*remove the copy, or only its link"):
        chosen(base, "home/copy")
    shutil.rmtree(base / "home" / "data")
    assert chosen(base, "home/copy") == folder
