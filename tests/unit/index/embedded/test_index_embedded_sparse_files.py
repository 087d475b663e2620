"""Copies of files with holes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orion_recall.index.embedded.optimised_copy import copy_folder, copy_with_holes, taken_bytes

_MIB = 1 << 20


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {0: b"first"},
        {3 * _MIB: b"behind a hole"},
        {0: b"x" * 5000, 5 * _MIB - 3: b"over the end of a mebibyte"},
        {0: bytes(3 * _MIB), 2 * _MIB + 4095: b"in the middle of zeros"},
    ],
)
def test_a_copy_has_the_same_bytes_and_the_same_length(folder: Path, parts: dict[int, bytes]):
    source = folder / "source"
    with source.open("wb") as file:
        for place, data in parts.items():
            file.seek(place)
            file.write(data)
        file.truncate(6 * _MIB + 1)

    copy_with_holes(source, folder / "copy")

    assert (folder / "copy").read_bytes() == source.read_bytes()


def test_neither_a_hole_nor_written_zeros_take_room_in_a_copy(folder: Path):
    (folder / "shard" / "segment").mkdir(parents=True)
    with (folder / "shard" / "segment" / "chunk").open("wb") as file:
        file.write(b"a vector" + bytes(4 * _MIB))
        file.flush()
        os.fsync(file.fileno())
        file.truncate(32 * _MIB)

    copy_folder(folder / "shard", folder / "copy")

    assert (folder / "copy" / "segment" / "chunk").stat().st_size == 32 * _MIB
    assert taken_bytes(folder / "copy") < _MIB < taken_bytes(folder / "shard")
