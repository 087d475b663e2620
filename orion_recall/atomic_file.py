"""Atomic file writes: to a temporary file first, which then replaces the target."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO, TextIO

from orion_recall.errors import SettingsError


@contextlib.contextmanager
def whole_file(target: Path) -> Generator[IO[bytes]]:
    """A file that replaces the target, synced to disk, when the block ends without an error.

    Its owner alone may read it: most hold memories or questions.
    A target that is no regular file, such as a pipe or a terminal, is written directly. SettingsError when the file
    cannot be made.
    """
    if target.is_dir():
        raise SettingsError(f"{target} is a folder: name a file in it")
    if not target.parent.is_dir():
        raise SettingsError(f"{target.parent} is no folder: make it first")
    is_plain = target.is_file() and not target.is_symlink()
    # The kernel follows no link of a stranger in a folder such as /tmp; to resolve one here would.
    if os.path.lexists(target) and not is_plain and target.lstat().st_uid not in (0, os.geteuid()):
        raise SettingsError(f"{target} is a link or a pipe of somebody else: give another name")
    if target.exists() and not target.is_file():
        with _opened(target, target, os.O_WRONLY) as opened:
            yield opened
        return
    place = target.resolve()  # a link stays one
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        # Never through what somebody else has put there.
        with _opened(part, target, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _opened(file: Path, target: Path, flags: int) -> IO[bytes]:
    try:
        if flags & os.O_EXCL:  # of a process that was killed
            file.unlink(missing_ok=True)
        return os.fdopen(os.open(file, flags, 0o600), "wb")
    except OSError as error:
        raise SettingsError(f"{target} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def whole_text(target: Path) -> Generator[TextIO]:
    """The same for text, in UTF-8 with line ends as given."""
    with whole_file(target) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield lines
        lines.detach()
