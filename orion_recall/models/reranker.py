"""Rerankers: cross-encoders score how well texts answer a query. Slower than a search, so for a few texts."""

from __future__ import annotations

import asyncio
import importlib
import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from orion_recall.errors import ModelError
from orion_recall.models.onnx_encoder import Vectors, load_in_thread
from orion_recall.models.transformers import library
from orion_recall.text.normal import storable

# Between so many pairs a job looks whether anybody still waits for it.
_AT_ONCE = 8
_MOST_CHARS = 4_000


class Reranker(Protocol):
    """Scores texts against a query."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, in [0, 1], in the order of the texts. Raises `ModelError`."""
        ...


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
        abandoned = threading.Event()
        job = asyncio.get_running_loop().run_in_executor(
            self._thread,
            self._score,
            storable(query[:_MOST_CHARS]),
            [storable(t[:_MOST_CHARS]) for t in texts],
            abandoned,
        )
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
        for start in range(0, len(texts), _AT_ONCE):
            if abandoned.is_set():
                raise ModelError("the caller was cancelled: these scores are not needed any more")
            logits.append(self._predict(self._model, [(query, text) for text in texts[start : start + _AT_ONCE]]))
        return [sigmoid(float(logit)) for part in logits for logit in part]

    def _predict(self, model: Any, pairs: list[tuple[str, str]]) -> Vectors:
        found = model.predict(pairs, activation_fn=self._as_it_is, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(found, dtype=np.float32).reshape(-1)


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-x); beyond 60 on either side it is 0 or 1 to a float."""
    return 1.0 / (1.0 + math.exp(-min(max(logit, -60.0), 60.0)))
