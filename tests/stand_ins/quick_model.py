"""The default model as the tests load it: its token space made once on a machine, its session once a process.

To load it as shipped costs more than a second of processor time, most of it for the token space, and a run loads it
some hundred times. The vectors are the same to the last bit: arrays are kept as they are. Its file is of a hundred
megabytes, and read for its checksum once a process, as long as it is the same file.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from orion_recall.models import embedder, onnx_encoder, token_space, weights
from orion_recall.models.onnx_encoder import OnnxEncoder
from orion_recall.models.token_space import TokenSpace
from orion_recall.models.weights import Weights
from tests.stand_ins.kept import kept_folder

_ARRAYS = ("_counts", "_weights", "_projection")
_CODE = hashlib.sha256("".join(map(inspect.getsource, (onnx_encoder, token_space))).encode()).hexdigest()
_LARGE_BYTES = 10_000_000
_CHECKSUM = "_sha256"
_CHECKSUM_AS_SHIPPED: Callable[[Iterable[Path]], str] = vars(weights)[_CHECKSUM]
_encoders: dict[tuple[Path, str], _Encoder] = {}
_checksums: dict[tuple[tuple[Path, int, int, int], ...], str] = {}


def install() -> None:
    """From now on every embedder of this process loads quickly. `OnnxEncoder` by itself stays as it is."""
    setattr(embedder, "OnnxEncoder", _encoder)  # noqa: B010  its type is a class
    setattr(weights, _CHECKSUM, _checksum)


def _checksum(paths: Iterable[Path]) -> str:
    """Small files are those that tests write, again and again in one place."""
    files = tuple(paths)
    found = [(file.stat(), file) for file in files]
    if sum(stat.st_size for stat, _ in found) < _LARGE_BYTES:
        return _CHECKSUM_AS_SHIPPED(files)
    known = tuple((file, stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat, file in found)
    if known not in _checksums:
        _checksums[known] = _CHECKSUM_AS_SHIPPED(files)
    return _checksums[known]


class _Encoder(OnnxEncoder):
    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self._sha256 = weights.sha256
        self._space: TokenSpace | None = None

    def token_space(self) -> TokenSpace:
        if self._space is None:
            kept = kept_folder(f"token-space-{_CODE[:12]}") / f"{self._sha256}.npz"
            if kept.exists():
                self._space = _read(kept)
            else:
                self._space = super().token_space()
                _write(self._space, kept)
        return self._space


def _encoder(weights: Weights) -> _Encoder:
    found = _encoders.get((weights.model_path, weights.sha256))
    if found is None:
        found = _encoders[weights.model_path, weights.sha256] = _Encoder(weights)
    return found


def _write(space: TokenSpace, file: Path) -> None:
    arrays: dict[str, Any] = {name: vars(space)[name] for name in _ARRAYS}
    unfinished = file.with_name(f"new-{os.getpid()}.npz")
    np.savez(unfinished, name=np.array(space.name), width=np.array(space.width), **arrays)
    unfinished.rename(file)


def _read(file: Path) -> TokenSpace:
    space = TokenSpace.__new__(TokenSpace)
    with np.load(file) as found:
        vars(space).update({name: found[name] for name in _ARRAYS})
        space.name, space.width = str(found["name"]), int(found["width"])
    return space
