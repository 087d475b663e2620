"""Short private folders for Unix sockets, whose paths must stay under 108 bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

from orion_recall.errors import EngineError

_TMP = Path("/tmp")  # noqa: S108  not TMPDIR: it may be long, and it must be the same in every process
_LONGEST_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432.lock")


def socket_folder(data_dir: Path, uid: int) -> Path:
    """Where the sockets of this data folder live for servers that run as `uid`; nothing is made yet.

    The same folder for the same resolved `data_dir`, so that an address outlives a restart.
    """
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and uid == os.geteuid() and _is_private(Path(runtime), uid):
        folder = Path(runtime) / f"orion-recall-{name}"
        if len(os.fsencode(folder)) <= _LONGEST_FOLDER_BYTES:
            return folder
    return _TMP / f"orion-{uid}-{name}"


def make_socket_folder(folder: Path, uid: int) -> None:
    """Makes the folder, mode 700 and owned by `uid`, or finds it so.

    /tmp belongs to everybody: a folder, link or file that another user put there first is refused, or that
    user could stand between us and the servers.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() != uid:
        os.chown(folder, uid, uid, follow_symlinks=False)
    if not _is_private(folder, uid):
        raise EngineError(
            f"{folder} is not a private folder of uid {uid} (it belongs to uid {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):o}): remove it, or find out who made it"
        )


def remove_socket_folder(folder: Path) -> None:
    """Removes the folder when it is empty: two servers may share it."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_private(folder: Path, uid: int) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not stat.S_IMODE(found.st_mode) & 0o077
