"""Copies of files that keep their holes: the engine makes files of 32 MiB and fills a part of each."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_PAGE = bytes(4096)
_READ_BYTES = 1 << 20
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system


def copy_folder(source: Path, target: Path) -> None:
    """Copies a folder with all that is in it; pages of zeros become holes. OSError as of `shutil.copytree`."""
    shutil.copytree(source, target, copy_function=copy_with_holes)


def copy_with_holes(source: str | Path, target: str | Path) -> None:
    """Copies a file's bytes; its holes are not read, and other pages of zeros become holes."""
    with Path(source).open("rb", buffering=0) as read, Path(target).open("wb", buffering=0) as written:
        written.truncate(os.fstat(read.fileno()).st_size)
        for begin, end in _filled(read.fileno()):
            for place in range(begin, end, _READ_BYTES):
                _write_filled(
                    written.fileno(), os.pread(read.fileno(), min(_READ_BYTES, end - place), place), place
                )


def taken_bytes(folder: Path) -> int:
    """The bytes that the files in a folder take on the disk, without their holes."""
    return sum(path.stat().st_blocks * _BLOCK_BYTES for path in folder.rglob("*"))


def _filled(file: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes, as far as the file system tells: begin and end."""
    size, place = os.fstat(file).st_size, 0
    while place < size:
        try:
            begin = os.lseek(file, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            raise
        place = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, place


def _write_filled(file: int, data: bytes, place: int) -> None:
    """Writes the pages of the data that are not all zeros, those beside each other in one go."""
    view, begin = memoryview(data), 0
    for start in range(0, len(data), len(_PAGE)):
        if data[start : start + len(_PAGE)] == _PAGE:
            _write(file, view[begin:start], place + begin)
            begin = start + len(_PAGE)
    _write(file, view[begin:], place + begin)


def _write(file: int, data: memoryview, place: int) -> None:
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written
