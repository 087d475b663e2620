"""Embedders: vectors of queries and documents, computed off the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.models.batching import QueryBatcher, Vector, batches_of_like_length, separate
from orion_recall.models.int8 import INT8_NAME, INT8_SHA256, Int8Encoder
from orion_recall.models.onnx_encoder import (
    DEFAULT_MODEL,
    MAX_CHARS,
    OnnxEncoder,
    Vectors,
    find_weights,
    load_in_thread,
    prepared,
)
from orion_recall.models.token_space import Tokens, TokenSpace, TokenStates

log = logging.getLogger("orion_recall.models")

T = TypeVar("T")
Precision = Literal["int8", "fp32"]
Encoder = OnnxEncoder | Int8Encoder

# Threads that embed documents. Each text is a run of its own, in which Python's lock is free.
MOST_THREADS = 2
# Of texts that are embedded in one go: some 150 tokens, about fifty milliseconds of a core. A query that comes
# meanwhile shares the machine with the rest of one slice, and larger ones are no faster.
SLICE_CHARS = 512
# Slices for each thread, with the running one: with none waiting, it would be idle until the event loop sends one.
_SLICES_A_THREAD = 4
_NICER = 10


class Embedder(Protocol):
    """Embeds texts as vectors. An index and its queries must have the same weights' hash.

    One that is a server may be away: until it has answered, what it is and what it does are a ModelError.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def weights_sha256(self) -> str: ...

    async def embed_query(self, text: str) -> Vector:
        """A unit vector, float32, shape (dimension,)."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension), in the order of the texts."""
        ...


class Reranker(Protocol):
    """Scores texts against a query: a cross-encoder is slower than a search, so for a few texts."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, in [0, 1], in the order of the texts. Raises `ModelError`."""
        ...


class _Query(NamedTuple):
    """A question's vector, and the states of its tokens as float16: most are never used."""

    vector: Vector
    states: TokenStates | None


class _Loaded(NamedTuple):
    """One form of the model; `note` says why it is not the wanted one."""

    name: str
    sha256: str
    encoder: Encoder
    tokens: TokenSpace | None
    note: str | None = None


class OnnxEmbedder:
    """A local sentence-transformer on ONNX Runtime, `TokenVectors` if wanted. `load` before use, `close` after.

    Queries have a thread, documents one or two. A slice of documents gives way to recalls and to waiting queries,
    for 100 ms at most, so that neither starves, and its thread to all others where a core is short. Documents that
    a recall itself waits for have a thread of their own. Texts are seen up to 256 tokens and 2,000 characters.
    The default model has two forms, int8 and fp32. Where int8 cannot be used, it is fp32, and `form_note` says why.
    """

    def __init__(
        self, *, path: Path | None = None, token_vectors: bool = True, precision: Precision = "int8"
    ) -> None:
        self._path, self._token_vectors, self._precision = path, token_vectors, precision
        self._loading = asyncio.Lock()
        self._loaded: _Loaded | None = None
        self.queries = QueryBatcher(self._encode_queries)
        self._threads = min(MOST_THREADS, os.cpu_count() or 1)
        self._documents = ThreadPoolExecutor(self._threads, "embed-document", lower_thread_priority)
        # Behind slices that give way to it, a recall would wait for those to end waiting.
        self._awaited = ThreadPoolExecutor(1, "embed-awaited")

    @property
    def name(self) -> str:
        return DEFAULT_MODEL if self._loaded is None else self._loaded.name

    @property
    def dimension(self) -> int:
        return self._ready().encoder.dimension

    @property
    def weights_sha256(self) -> str:
        return self._ready().sha256

    @property
    def form_note(self) -> str | None:
        """Why it is not the form that was wanted; None when it is."""
        return self._ready().note

    @property
    def token_space(self) -> str:
        return tokens.name if (tokens := self._ready().tokens) is not None else ""

    @property
    def token_width(self) -> int:
        return tokens.width if (tokens := self._ready().tokens) is not None else 0

    async def load(self) -> None:
        """Find, check, load and warm the model in a thread; a second call does nothing. Raises `ModelError`."""
        async with self._loading:
            if self._loaded:
                return
            # Without this, a batch of queries would start a thread pool inside the tokenizer.
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            what = f"the model {self._path or DEFAULT_MODEL}"
            self._loaded = await load_in_thread(self._documents, self._load, what)
            # One that gains nothing by batches answers each query as soon as it is ready.
            if not self._loaded.encoder.is_batched:
                self.queries.max_batch = 1

    async def embed_query(self, text: str) -> Vector:
        return (await self.queries.embed(prepared(text))).vector

    async def query_tokens(self, text: str) -> Tokens:
        space, states = self._space(), (await self.queries.embed(prepared(text))).states
        assert states is not None  # kept for every query as long as there is a space
        return space.query(states)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return (await self._in_slices(texts, None))[0]

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        return await self._in_slices(texts, self._space())

    async def close(self) -> None:
        await self.queries.close()
        for threads in (self._documents, self._awaited):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    async def _in_slices(self, texts: Sequence[str], space: TokenSpace | None) -> tuple[Vectors, list[Tokens]]:
        """The vectors of the texts, and with a `space` those of their tokens, made in the documents' threads."""
        loop, encoder = asyncio.get_running_loop(), self._ready().encoder

        def encode(some: list[str]) -> tuple[Vectors, list[Tokens]]:
            made, states = encoder.encode_with_states([prepared(text) for text in some])
            return made, [space.document(one) for one in states] if space is not None else []

        if FOREGROUND.is_own:
            threads, most, work = self._awaited, _SLICES_A_THREAD, encode
        else:
            threads, most = self._documents, _SLICES_A_THREAD * self._threads
            work = partial(run_after_recalls, encode)
        lengths = [min(len(text), MAX_CHARS) for text in texts]
        alike = partial(batches_of_like_length, lengths, most_chars=SLICE_CHARS)
        vectors, tokens = np.empty((len(texts), encoder.dimension), dtype=np.float32), dict[int, Tokens]()
        running = deque[tuple[list[int], asyncio.Future[tuple[Vectors, list[Tokens]]]]]()

        async def take() -> None:
            rows, job = running.popleft()
            vectors[rows], theirs = await job
            tokens.update(zip(rows, theirs, strict=False))

        try:
            for rows in await loop.run_in_executor(threads, alike):
                running.append((rows, loop.run_in_executor(threads, work, [texts[row] for row in rows])))
                if len(running) == most:
                    await take()
            while running:
                await take()
        finally:
            for _, job in running:
                job.cancel()
        return vectors, [tokens[row] for row in sorted(tokens)]

    def _space(self) -> TokenSpace:
        if (tokens := self._ready().tokens) is None:
            raise ModelError(f"{self.name} is to give no vectors of tokens: ORION_TOKEN_VECTORS is false")
        return tokens

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise ModelError(f"the model {self.name} is not loaded yet")
        return self._loaded

    def _load(self) -> _Loaded:
        weights, note = find_weights(self._path), None
        if self._precision == "int8" and weights.name == DEFAULT_MODEL:
            try:
                return self._warm(INT8_NAME, INT8_SHA256, Int8Encoder(weights))
            except ModelError as error:
                note = f"fp32 is used, which takes three times the processor time: {error}"
                log.warning("the int8 form of %s cannot be used, so %s", weights.name, note)
        return self._warm(weights.name, weights.sha256, OnnxEncoder(weights), note)

    def _warm(self, name: str, sha256: str, encoder: Encoder, note: str | None = None) -> _Loaded:
        encoder.encode(["the first run allocates"])
        return _Loaded(name, sha256, encoder, encoder.token_space() if self._token_vectors else None, note)

    def _encode_queries(self, texts: list[str]) -> list[_Query]:
        loaded = self._ready()
        vectors, states = loaded.encoder.encode_with_states(texts)
        if loaded.tokens is None:
            return [_Query(vector, None) for vector in separate(vectors)]
        return [
            _Query(vector, TokenStates(one.ids, one.states.astype(np.float16)))
            for vector, one in zip(separate(vectors), states, strict=True)
        ]


def run_after_recalls(encode: Callable[[list[str]], T], texts: list[str]) -> T:
    """The result of `encode`, called when no recall is active, or after a limited wait."""
    FOREGROUND.yield_to_foreground()
    return encode(texts)


def lower_thread_priority() -> None:
    """Lowers the priority of the calling thread (Linux only: elsewhere threads have none of their own)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        priority = min(os.getpriority(os.PRIO_PROCESS, thread) + _NICER, 19)
        os.setpriority(os.PRIO_PROCESS, thread, priority)
