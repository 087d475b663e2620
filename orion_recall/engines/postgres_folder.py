"""The folder of the embedded database: in the data folder, or elsewhere if Postgres' user cannot enter that.

As root, Postgres runs as another user. A data folder under a home of mode 0700 is closed to that user, and no mode
is loosened for it: the database lies under `OUTSIDE` then, and `data_dir/postgres` is a link to it.

    /var/lib/orion-recall-postgres/     root, 0755
        a1b2c3-k4j5h6g7/                root and Postgres' group, 0710
            data_folder                 a link back to the data folder that it belongs to
            database/                   Postgres' user, 0700: where data_dir/postgres points
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

from orion_recall.engines.postgres_binaries import check_owner, closed_folder, make_open_folder
from orion_recall.errors import EngineError

logger = logging.getLogger("orion_recall.engines")

NAME = "postgres"
# No account has this number: it is in a range that https://systemd.io/UIDS-GIDS/ leaves free. Postgres does not ask
# for a password, so whoever has its uid is its superuser: that of `nobody` is everybody's.
UNPRIVILEGED_ID = 60_900
FORMER_ID = 65_534
_MADE = "postgres.made"
_SYSTEM_ACCOUNTS = 1000
OUTSIDE = Path("/var/lib/orion-recall-postgres")
CLUSTER = "cluster"
_BACK = "data_folder"
_DATABASE = "database"


def private_id() -> int:
    """The uid and gid that root runs Postgres as: of its own, or `nobody` in a container that has no such uid."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
            first, _, count = map(int, line.split())
            if first <= UNPRIVILEGED_ID < first + count:
                return UNPRIVILEGED_ID
        logger.warning("uid %d is not in this container: Postgres runs as uid %d", UNPRIVILEGED_ID, FORMER_ID)
        return FORMER_ID
    return UNPRIVILEGED_ID


def hand_over(data_dir: Path, uid: int) -> None:
    """Gives what an earlier version made for `nobody` to Postgres' own user; the data folder's lock is held."""
    folder = data_dir / NAME
    if uid == FORMER_ID or not folder.exists():
        return
    target = folder.resolve()
    for place in (data_dir, target.parent):  # the folder outside, too, when it is there
        found = place.stat()
        if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, FORMER_ID, 0o710):
            os.chown(place, 0, uid)
    if target.stat().st_uid != FORMER_ID:
        return
    give_to(target, uid)
    logger.warning("%s belongs to uid %d now, and no longer to %d, which others may have", target, uid, FORMER_ID)


def give_to(folder: Path, uid: int) -> None:
    """Gives a folder with all that is in it to a user; the folder itself comes last."""
    for at, folders, files in os.walk(folder):  # links are not followed
        for name in (*folders, *files):
            os.chown(Path(at, name), uid, uid, follow_symlinks=False)
    os.chown(folder, uid, uid)


def idle_account() -> int:
    """The uid of a system account that no process runs as: `initdb` refuses a uid that has no account.

    That of `nobody` where every account has processes.
    """
    taken = {path.stat().st_uid for path in Path("/proc").glob("[0-9]*") if path.exists()}
    found = (one.pw_uid for one in pwd.getpwall() if 0 < one.pw_uid < _SYSTEM_ACCOUNTS and one.pw_uid not in taken)
    return next(found, FORMER_ID)


def check_not_gone(data_dir: Path, cluster: Path) -> None:
    """EngineError when a database was made in this data folder and is gone: no empty one takes its place."""
    made = data_dir / _MADE
    if not cluster.exists() and made.exists():
        raise EngineError(
            f"the database of {data_dir} is gone: {cluster} is not there. Bring that folder back, as from a backup "
            f"of the disk; or remove {made} to begin with an empty one (memory restore brings a backup into it)"
        )


def note_made(data_dir: Path, cluster: Path) -> None:
    """Notes outside the database's own folder that there is a database."""
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
    if uid is None or (closed := closed_folder(folder, uid, uid)) is None:
        return folder
    _remove_unused(folder, closed, uid, outside)
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
        _check_back(folder, target.parent / _BACK)
        logger.info("the database of %s lies in %s", folder.parent, target)
    return target


def _check_back(folder: Path, back: Path) -> None:
    """A moved data folder keeps its database. A copied one would share it with the original: refused."""
    data_dir = folder.parent
    with contextlib.suppress(FileNotFoundError):
        owner = back.readlink()
        if owner == data_dir:
            return
        with contextlib.suppress(OSError):
            if (owner / NAME).readlink() == folder.readlink():
                raise EngineError(
                    f"{data_dir} is a copy of {owner}, whose database lies outside and was not copied: remove the "
                    "copy, or only its link "
                    f"{folder} to begin with an empty database (memory restore brings a backup into it)"
                )
        back.unlink()
    back.symlink_to(data_dir)


def _remove_unused(folder: Path, closed: Path, uid: int, outside: Path) -> None:
    """Removes what a start that failed has left in the data folder. A database there stays and is an error."""
    if not folder.exists():
        return
    if all(entry.name == ".lock" or entry.name.startswith("new-") for entry in folder.iterdir()):
        shutil.rmtree(folder)
        return
    place = outside / _name(folder.parent) / _DATABASE
    raise EngineError(
        f"uid {uid}, which runs Postgres because root may not, cannot enter {closed}, where the database {folder} "
        f"lies: move it outside (install -d -m 711 {outside} {place.parent} && mv {folder} {place} && "
        f"ln -s {place} {folder}), or run as another user than root, or set ORION_POSTGRES_DSN"
    )


def _name(data_dir: Path) -> str:
    return hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:6]


def _make(folder: Path, closed: Path, uid: int, outside: Path) -> Path:
    data_dir = folder.parent
    earlier = [
        back.parent for back in outside.glob(f"*/{_BACK}") if back.is_symlink() and back.readlink() == data_dir
    ]
    try:
        make_open_folder(outside)
        check_owner(outside)
        place = Path(tempfile.mkdtemp(prefix=f"{_name(data_dir)}-", dir=outside))
        database = place / _DATABASE
        database.mkdir(mode=0o700)
        os.chown(database, uid, uid)
        os.chown(place, 0, uid)
        place.chmod(0o710)
        (place / _BACK).symlink_to(data_dir)
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
        *(data_dir, database, uid, closed, place),
    )
    for left in earlier:
        logger.warning("%s is of an earlier data folder of this path: remove it, unless that was moved", left)
    return database
