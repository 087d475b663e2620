"""A small file system of its own, in a file: what happens on a full disk can be seen only on one that is full."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from orion_recall.engines.disk_space import free_bytes

_BLOCK = 1 << 16
_AT_LAST = 8 << 20


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Generator[bool]:
    """The folder, which must be there and empty, on a disk of this size; False where none can be mounted.

    Not one in memory: there a page that was never written takes room as soon as it is read.
    """
    image = folder.with_name(f"{folder.name}.image")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    commands = (["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(folder)])
    try:
        is_mounted = os.geteuid() == 0 and all(
            subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in commands
        )
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        image.unlink()


def fill(filler: Path, *, leaving: int) -> None:
    """Write to this file until so few bytes of its disk are free. It blocks."""
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        if (most := free_bytes(filler.parent) - leaving - _AT_LAST) > 0:
            os.posix_fallocate(file.fileno(), file.tell(), most)
            file.seek(0, os.SEEK_END)
        while free_bytes(filler.parent) > leaving:
            file.write(bytes(_BLOCK))
            os.fsync(file.fileno())
