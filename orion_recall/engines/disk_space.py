"""Free space on the disk of a folder, and how much of it must stay free.

A mapped file on a full disk ends the process that writes to it (SIGBUS), and no code of ours can catch that. So
free space is read before every write. The parts that can be made again stop first: index and graph at the whole of
ORION_MIN_FREE_BYTES, the embedded bus at half of it, the embedded Postgres at a quarter. What was accepted before
can thus still be recorded and answered.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from orion_recall.errors import DiskShort, SourceError

BUS_SHARE, POSTGRES_SHARE = 2, 4
_MIB = 1 << 20


def free_bytes(folder: Path) -> int:
    """Bytes that a user without special rights may still write where the folder is, or will be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The disk of one folder. Below `least_bytes` free (0: not watched) happens the `effect`, told to people."""

    name: str
    folder: Path
    least_bytes: int
    effect: str

    @property
    def free_bytes(self) -> int:
        return free_bytes(self.folder)

    def shortage(self, needed_bytes: int = 0) -> str | None:
        """Why nothing more may be written, if further bytes are needed; None when there is room. It blocks."""
        if self.least_bytes == 0:
            return None
        free = self.free_bytes
        if free - needed_bytes >= self.least_bytes:
            return None
        more = f", and {_mib(needed_bytes)} are needed" if needed_bytes else ""
        return (
            f"the disk under {self.folder} is short: {_mib(free)} are free{more}, {_mib(self.least_bytes)} must "
            "stay free (ORION_MIN_FREE_BYTES): make room"
        )

    def check_opening(self) -> None:
        """SourceError without room to open a copy: its engine writes to mapped files as it loads. It blocks."""
        needed = self.least_bytes // 4
        if needed and (free := self.free_bytes) < needed:
            raise SourceError(
                f"the disk under {self.folder} is full: {_mib(free)} are free, and {_mib(needed)} are needed to "
                f"open the {self.name}: make room, then start again"
            )

    def check(self, needed_bytes: int = 0) -> None:
        """DiskShort when nothing more may be written. It blocks."""
        if (why := self.shortage(needed_bytes)) is not None:
            raise DiskShort(why)


def copy_space(name: str, folder: Path, least_bytes: int) -> DiskSpace:
    """The disk of an embedded copy."""
    return DiskSpace(
        name=name, folder=folder, least_bytes=least_bytes, effect=f"the {name} is searched, and not written"
    )


def _mib(count: int) -> str:
    return f"{count / _MIB:,.0f} MiB"
