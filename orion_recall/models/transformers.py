"""Embedders and rerankers of sentence-transformers in this process: an extra, imported when it is used."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orion_recall.errors import ModelError, install_hint
from orion_recall.models.batching import CHARS_A_TOKEN, QueryBatcher, Vector, batches_of_like_length, separate
from orion_recall.models.embedder import lower_thread_priority, run_after_recalls
from orion_recall.models.onnx_encoder import Vectors, load_in_thread
from orion_recall.text.normal import storable

# Some tokenizers say that they have no limit by a number of thirty digits.
_MOST_CHARS = 100_000
NO_LIBRARY = f"models of sentence-transformers need the library: {install_hint('transformers')}"


def library() -> Any:
    """The module `sentence_transformers`; ModelError when it is not installed."""
    try:
        return importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise ModelError(f"{NO_LIBRARY} ({error})") from error


class _Loaded(NamedTuple):
    """The loaded model; it reads at most `most_chars` characters of a text."""

    model: Any
    dimension: int
    sha256: str
    most_chars: int


class TransformersEmbedder:
    """A SentenceTransformer. `await load()` before use, `await close()` after.

    Queries and documents have a thread each and take turns, since a tokenizer serves one at a time. Each gets the
    model's own prompt for queries or documents, where it has one. On a GPU where the library finds one.
    """

    def __init__(self, name: str) -> None:
        self._given, folder = name, Path(name)
        # The name that indexes keep: the model's without the default owner, or that of its folder.
        self.name = folder.resolve().name if folder.is_dir() else name.removeprefix("sentence-transformers/")
        self._loaded: _Loaded | None = None
        self._turn = threading.Lock()
        self._queries = QueryBatcher(self._encode_queries)
        self._documents = ThreadPoolExecutor(1, "embed-document", lower_thread_priority)

    @property
    def dimension(self) -> int:
        return self._ready().dimension

    @property
    def weights_sha256(self) -> str:
        return self._ready().sha256

    async def load(self) -> None:
        """Load and warm the model in a thread; a second call does nothing. Raises `ModelError`."""
        if self._loaded is not None:
            return
        self._loaded = await load_in_thread(self._documents, self._load, f"the model {self._given}")

    async def embed_query(self, text: str) -> Vector:
        return await self._queries.embed(storable(text[: self._ready().most_chars]))

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        loaded, loop = self._ready(), asyncio.get_running_loop()
        encode = partial(run_after_recalls, partial(self._unit, loaded.model.encode_document))
        short = [storable(text[: loaded.most_chars]) for text in texts]
        vectors = np.empty((len(texts), loaded.dimension), dtype=np.float32)
        for rows in batches_of_like_length([len(text) for text in short]):
            try:
                vectors[rows] = await loop.run_in_executor(self._documents, encode, [short[row] for row in rows])
            except (RuntimeError, ValueError) as error:
                raise ModelError(f"{len(rows)} texts could not be embedded: {error}") from error
        return vectors

    async def close(self) -> None:
        await self._queries.close()
        await asyncio.to_thread(self._documents.shutdown, cancel_futures=True)

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise ModelError(f"the model {self.name} is not loaded yet")
        return self._loaded

    def _load(self) -> _Loaded:
        model = library().SentenceTransformer(self._given)
        first = model.encode_document(["the first run allocates"], show_progress_bar=False)
        most_chars = min(int(model.max_seq_length or _MOST_CHARS) * CHARS_A_TOKEN, _MOST_CHARS)
        return _Loaded(model, int(first.shape[1]), _fingerprint(model), most_chars)

    def _encode_queries(self, texts: list[str]) -> list[Vector]:
        return separate(self._unit(self._ready().model.encode_query, texts))

    def _unit(self, encode: Any, texts: list[str]) -> Vectors:
        with self._turn:
            found = encode(texts, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(found, dtype=np.float32)


def _fingerprint(model: Any) -> str:
    """sha256 over weights, kinds of layers, pooling and prompts; not over files, which depend on their origin."""
    as_bytes = importlib.import_module("torch").uint8
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(as_bytes).numpy())
    for layer in model:
        pooling = getattr(layer, "get_pooling_mode_str", str)()
        digest.update(f"{type(layer).__name__} {pooling}\n".encode())
    prompts: Mapping[str, str] = model.prompts or {}
    for name, prompt in sorted(prompts.items()):
        digest.update(f"{name}={prompt}\n".encode() if prompt else b"")
    return digest.hexdigest()


# Between so many pairs a job looks whether anybody still waits for it.
_PAIRS_AT_ONCE = 8
_MOST_CHARS_OF_A_PAIR = 4_000


class CrossEncoderReranker:
    """A CrossEncoder of sentence-transformers with one output, in a thread of its own. `load`, use, `close`.

    The score is the sigmoid of its logit, whatever activation the model's own configuration names.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rerank")
        self._model: Any = None
        self._as_it_is: Any = None

    async def load(self) -> None:
        """Load and warm the model. Raises `ModelError`."""
        await load_in_thread(self._thread, self._load, f"the reranker {self._name}")

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The sigmoid of the logit of each pair. A caller that is cancelled leaves the thread free soon after."""
        if self._model is None:
            raise ModelError(f"the reranker {self._name} is not loaded yet")
        abandoned, loop = threading.Event(), asyncio.get_running_loop()
        asked, *short = (storable(text[:_MOST_CHARS_OF_A_PAIR]) for text in (query, *texts))
        job = loop.run_in_executor(self._thread, self._score, asked, short, abandoned)
        try:
            return await job
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"{len(texts)} texts could not be reranked: {error}") from error
        finally:
            abandoned.set()

    async def close(self) -> None:
        """End the thread after what it is running."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    def _load(self) -> None:
        model = library().CrossEncoder(self._name)
        if model.num_labels != 1:
            raise ModelError(f"{self._name} gives {model.num_labels} numbers a pair: a reranker gives one")
        self._as_it_is = importlib.import_module("torch").nn.Identity()
        self._predict(model, [("the first run", "allocates")])
        self._model = model

    def _score(self, query: str, texts: list[str], abandoned: threading.Event) -> list[float]:
        logits: list[Vectors] = []
        for start in range(0, len(texts), _PAIRS_AT_ONCE):
            if abandoned.is_set():
                raise ModelError("the caller was cancelled: these scores are not needed any more")
            pairs = [(query, text) for text in texts[start : start + _PAIRS_AT_ONCE]]
            logits.append(self._predict(self._model, pairs))
        return [sigmoid(float(logit)) for part in logits for logit in part]

    def _predict(self, model: Any, pairs: list[tuple[str, str]]) -> Vectors:
        found = model.predict(pairs, activation_fn=self._as_it_is, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(found, dtype=np.float32).reshape(-1)


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-x); beyond 60 on either side it is 0 or 1 to a float."""
    return 1.0 / (1.0 + math.exp(-min(max(logit, -60.0), 60.0)))
