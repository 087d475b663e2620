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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orion_recall.models import embedder, int8, onnx_encoder, token_space
from orion_recall.models.int8 import Int8Encoder
from orion_recall.models.onnx_encoder import OnnxEncoder, Weights
from orion_recall.models.token_space import TokenSpace
from tests.stand_ins.kept import kept_folder

_ARRAYS = ("_counts", "_unread", "_weights", "_projection")
_MODULES = (onnx_encoder, token_space, int8)
_CODE = hashlib.sha256("".join((*_ARRAYS, *map(inspect.getsource, _MODULES))).encode()).hexdigest()
_LARGE_BYTES = 10_000_000
_CHECKSUM = "_sha256"
_CHECKSUM_AS_SHIPPED: Callable[[Iterable[Path]], str] = vars(onnx_encoder)[_CHECKSUM]
_encoders: dict[tuple[type, Path, str], OnnxEncoder | Int8Encoder] = {}
_spaces: dict[str, TokenSpace] = {}
_checksums: dict[tuple[tuple[Path, int, int, int], ...], str] = {}


def install() -> None:
    """From now on every embedder of this process loads quickly. The encoders by themselves stay as they are."""
    setattr(embedder, "OnnxEncoder", partial(_encoder, _Fp32))  # noqa: B010  its type is a class
    setattr(embedder, "Int8Encoder", partial(_encoder, _Int8))  # noqa: B010
    setattr(onnx_encoder, _CHECKSUM, _checksum)


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


class _Fp32(OnnxEncoder):
    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self._kept = weights.sha256

    def token_space(self) -> TokenSpace:
        return _space(self._kept, super().token_space)


class _Int8(Int8Encoder):
    def token_space(self) -> TokenSpace:
        return _space(self.sha256, super().token_space)


def _space(sha256: str, make: Callable[[], TokenSpace]) -> TokenSpace:
    if sha256 not in _spaces:
        kept = kept_folder(f"token-space-{_CODE[:12]}") / f"{sha256}.npz"
        if kept.exists():
            _spaces[sha256] = _read(kept)
        else:
            _spaces[sha256] = make()
            _write(_spaces[sha256], kept)
    return _spaces[sha256]


def _encoder(kind: type[_Fp32] | type[_Int8], weights: Weights) -> OnnxEncoder | Int8Encoder:
    key = (kind, weights.model_path, weights.sha256)
    if key not in _encoders:
        _encoders[key] = kind(weights)
    return _encoders[key]


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
