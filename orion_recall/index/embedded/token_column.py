"""The token vectors of an embedded index: one column in two files beside the shard, compared in one pass.

    tokens/vectors   the tokens of all points, one after another: a byte a number, and the size of its steps
    tokens/rows      a header, then a row for each write of a point: its key, its first token, how many it has

Both files are only added to. The last row of a key counts; one without tokens says that the key is gone. The header
says how many rows were saved. After a crash the points of later rows have no tokens until they come again from the
outbox: their older tokens may not stand beside what the shard has of them by then. `copied` leaves out what no row
needs any more. One thread may write; any thread may compare.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from orion_recall.errors import SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.index.points import GivenTokens, HalfTokens
from orion_recall.models.token_space import Tokens, products

Packed = npt.NDArray[np.uint8]
"""Tokens as they are kept: a row of bytes each, `width` signed steps and, as a float32, how large one is."""

_VECTORS, _ROWS = "vectors", "rows"
# Numbers of eight bytes: the header is a magic number, the width, and how many rows were saved.
_NUMBER: Final = np.uint64
_MAGIC: Final = 0x314E4B54
_ROW_BYTES: Final = 24
_STEP_BYTES: Final = 4
_COUNT_BITS: Final = 16
_COUNTS: Final = (1 << _COUNT_BITS) - 1
# The file of vectors is longer than what is in it, as far as it is mapped: a hole, which takes no room.
_AHEAD_SHARE, _AHEAD_TOKENS = 0.25, 10_000
_COPIED_AT_A_TIME: Final = 500


class TokenColumn:
    """The token vectors of points, by key: float in, a byte a number in the files, compared as floats."""

    def __init__(self, folder: Path, width: int | None = None) -> None:
        """Opens the column in the folder, or makes an empty one of that width.

        SourceError when the files are not of a column, OSError when they cannot be read or written.
        """
        self.folder = folder
        if width is not None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        mode, files = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if width is not None else 0), list[int]()
        with ExitStack() as opened:
            for name in (_VECTORS, _ROWS):
                files.append(os.open(folder / name, mode, 0o600))
                opened.callback(os.close, files[-1])
            self._vectors, self._rows = files
            self._read(width)
            self._files = opened.pop_all()

    def _read(self, width: int | None) -> None:
        if width is not None:
            _write(self._rows, np.array([_MAGIC, width, 0], _NUMBER), 0)
        header = os.pread(self._rows, _ROW_BYTES, 0)
        if len(header) < _ROW_BYTES or (said := np.frombuffer(header, _NUMBER).tolist())[0] != _MAGIC:
            raise SourceError(f"{self.folder / _ROWS} has no token vectors")
        self._width, self._written_rows = said[1], said[2]
        self._bytes = self._width + _STEP_BYTES
        # By key its first token and, in the last bits, how many: a tuple of each would take twice as much.
        self._places: dict[int, int] = {}
        self._end = 0
        self._note(self._read_rows(0, self._written_rows))
        if os.fstat(self._vectors).st_size < self._end * self._bytes:
            raise SourceError(f"{self.folder / _VECTORS} is shorter than {self.folder / _ROWS} says")
        self._tokens = self._mapped()
        self._forget_unsaved()

    def __contains__(self, key: int) -> bool:
        return key in self._places

    def put(self, given: Mapping[int, GivenTokens]) -> None:
        """Writes the unit vectors of points' tokens, each of shape (tokens, width), in their order.

        Those of points with `AS_HELD` stay as they are, and so do points without any.
        """
        if packed := {
            key: _packed(one) for key, one in given.items() if one is not None and not isinstance(one, str)
        }:
            self._append([*packed], np.concatenate([*packed.values()]), [len(one) for one in packed.values()])

    def delete(self, keys: Sequence[int]) -> None:
        """Forgets the points; their vectors stay in the file until it is copied."""
        if known := [key for key in keys if key in self._places]:
            self._append(known, np.empty((0, self._bytes), np.uint8), [0] * len(known))

    def save(self) -> None:
        """All that was written is found again after a crash of the machine."""
        os.fsync(self._vectors)
        os.fsync(self._rows)
        _write(self._rows, np.array([_MAGIC, self._width, self._written_rows], _NUMBER), 0)
        os.fsync(self._rows)

    def max_sim(self, query: Tokens, keys: Sequence[int]) -> dict[int, float]:
        """For each point of the keys the sum of the query tokens' best dot products with its own tokens.

        `query` has the shape (tokens, width). Keys that are not there are left out.
        """
        of = self._places.get
        places = {key: place for key in keys if (place := of(key)) is not None}
        if not places:
            return {}
        packed = np.fromiter(places.values(), np.int64, len(places))
        counts = packed & _COUNTS
        starts = counts.cumsum() - counts
        tokens = self._tokens[np.repeat((packed >> _COUNT_BITS) - starts, counts) + np.arange(int(counts.sum()))]
        near = products(tokens[:, : self._width].view(np.int8).astype(np.float32), np.ascontiguousarray(query.T))
        near *= np.ascontiguousarray(tokens[:, self._width :]).view(np.float32)
        best = np.maximum.reduceat(near, starts, axis=0).sum(axis=1)
        return dict(zip(places, best.tolist(), strict=True))

    def copied(self, folder: Path) -> TokenColumn:
        """A saved copy in another folder, without what was deleted or replaced."""
        copy = TokenColumn(folder, self._width)
        places = sorted(self._places.items(), key=lambda one: one[1])
        for start in range(0, len(places), _COPIED_AT_A_TIME):
            FOREGROUND.yield_to_foreground()
            page = places[start : start + _COPIED_AT_A_TIME]
            tokens = [self._tokens[place >> _COUNT_BITS :][: place & _COUNTS] for _, place in page]
            copy._append([key for key, _ in page], np.concatenate(tokens), [len(one) for one in tokens])
        copy.save()
        return copy

    def close(self) -> None:
        """Gives back the files; what was not saved is not found again. Nothing may be compared afterwards."""
        with self._files:
            os.ftruncate(self._vectors, self._end * self._bytes)
        self._places = {}

    def _append(self, keys: Sequence[int], tokens: Packed, counts: Sequence[int]) -> None:
        firsts = self._end + np.cumsum(counts) - counts
        rows = np.stack([np.array(each, _NUMBER) for each in (keys, firsts, counts)], axis=1)
        end = self._end + len(tokens)
        if end > len(self._tokens):
            self._tokens = self._mapped(end)
        _write(self._vectors, tokens, self._end * self._bytes)
        _write(self._rows, rows, (1 + self._written_rows) * _ROW_BYTES)
        self._written_rows += len(rows)
        self._note(rows)

    def _note(self, rows: npt.NDArray[np.uint64]) -> None:
        for key, first, count in rows.tolist():
            if count:
                self._places[key] = first << _COUNT_BITS | count
            else:
                self._places.pop(key, None)
            self._end = first + count

    def _forget_unsaved(self) -> None:
        """Deletes the points of rows after the last saved one, by rows in their place: it may be cut short."""
        written = os.fstat(self._rows).st_size // _ROW_BYTES - 1
        if written > self._written_rows:
            unsaved = self._read_rows(self._written_rows, written - self._written_rows)
            self.delete(list(dict.fromkeys(unsaved[:, 0].tolist())))
        os.ftruncate(self._rows, (1 + self._written_rows) * _ROW_BYTES)

    def _read_rows(self, first: int, count: int) -> npt.NDArray[np.uint64]:
        wanted = count * _ROW_BYTES
        if len(read := os.pread(self._rows, wanted, (1 + first) * _ROW_BYTES)) < wanted:
            raise SourceError(f"{self.folder / _ROWS} is cut off")
        return np.frombuffer(read, _NUMBER).reshape(-1, 3)

    def _mapped(self, least: int = 0) -> Packed:
        """The tokens of the file, with room for at least so many. Who reads the former mapping keeps it."""
        most = max(least, self._end)
        most += max(_AHEAD_TOKENS, int(most * _AHEAD_SHARE))
        os.ftruncate(self._vectors, most * self._bytes)
        mapped = mmap.mmap(self._vectors, most * self._bytes, prot=mmap.PROT_READ)
        return np.frombuffer(mapped, np.uint8).reshape(most, self._bytes)


def _packed(vectors: HalfTokens | list[list[float]]) -> Packed:
    exact = np.asarray(vectors, dtype=np.float32)
    step = (np.abs(exact).max(axis=1, keepdims=True) / 127).astype(np.float32)
    steps = np.rint(exact / np.maximum(step, np.finfo(np.float32).tiny)).astype(np.int8)
    return np.concatenate([steps.view(np.uint8), step.view(np.uint8)], axis=1)


def _write(file: int, values: npt.NDArray[np.generic], at: int) -> None:
    data = memoryview(values.tobytes())
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
