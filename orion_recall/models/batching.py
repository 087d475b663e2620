"""Dynamic batching of query embeddings: queries that wait at the same time are embedded in one batch, in order."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.tasks import note_waited

Vector = npt.NDArray[np.float32]
T = TypeVar("T")

_DOCUMENT_BATCH = 32
# Texts times the longest one's characters: about 1,000 tokens, beyond which a batch costs memory and gains nothing.
_DOCUMENT_BATCH_CHARS = 4_096


@dataclass(slots=True, kw_only=True)
class _Request(Generic[T]):
    """One text, and the callers that wait for its vector."""

    text: str
    waiters: list[asyncio.Future[T]]

    @property
    def abandoned(self) -> bool:
        return all(waiter.done() for waiter in self.waiters)


class QueryBatcher(Generic[T]):
    """Embeds queries in one worker thread, with a cache, in FIFO batches.

    What `encode` gives is shared by the cache, one value a text: see `separate`.

    A query that finds the thread idle starts at once; those that arrive while it works make the next batch. Equal
    texts that wait at the same time are embedded once. A text whose callers have all been cancelled is left out.
    Callers may come from several event loops, one after another or at a time.
    """

    def __init__(
        self, encode: Callable[[list[str]], Sequence[T]], *, max_batch: int = 8, cache_size: int = 2048
    ) -> None:
        self.cache_hits = 0
        """Queries answered by the cache or by a text that was already waiting."""
        self.cache_misses = 0
        """Queries that had to be embedded."""
        self.max_batch = max_batch
        """Queries in a batch at most, up to the number that it was made with."""
        self._encode = encode
        self._answered = 0
        self._cache_size = cache_size
        self._cache: OrderedDict[str, T] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        # Guards all of the state here but the thread itself.
        self._lock = threading.Lock()
        self._queue: deque[_Request[T]] = deque()
        self._pending: dict[str, _Request[T]] = {}
        self._draining = False
        self._closed = False
        self._batch: list[_Request[T]] = []

    async def embed(self, text: str) -> T:
        """The text's result. Raises `ModelError`."""
        with self._lock:
            cached = self._cache.get(text)
            if cached is not None:
                self._cache.move_to_end(text)
                self.cache_hits += 1
                return cached
            waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._enqueue(text, waiter)
            request, before = self._pending[text], self._answered
        with FOREGROUND.active():
            try:
                return await waiter
            except asyncio.CancelledError:
                if self._answered > before and request in self._queue:
                    note_waited()
                raise

    async def close(self) -> None:
        """Let the running batch finish, fail the queries that wait, end the thread."""
        with self._lock:
            self._closed = True
            waiting = list(self._queue)
            self._queue.clear()
        self._fail(waiting, ModelError("the embedder was closed"))
        await asyncio.to_thread(self._thread.shutdown)

    def _enqueue(self, text: str, waiter: asyncio.Future[T]) -> None:
        """Join those who wait for the text, or queue it. The lock is held."""
        if self._closed:
            raise ModelError("the embedder is closed")
        request = self._pending.get(text)
        if request is not None:
            self.cache_hits += 1
            request.waiters.append(waiter)
            return
        self.cache_misses += 1
        request = self._pending[text] = _Request(text=text, waiters=[waiter])
        self._queue.append(request)
        if not self._draining:
            self._start()

    def _start(self) -> None:
        self._draining = True
        self._thread.submit(self._drain).add_done_callback(self._drained)

    def _drain(self) -> None:
        """Embed until nothing waits. In the worker, so that batches follow each other without a loop's turn."""
        while batch := self._take():
            vectors = self._encode([request.text for request in batch])
            self._deliver(batch, vectors)

    def _take(self) -> list[_Request[T]]:
        batch: list[_Request[T]] = []
        with self._lock:
            while self._queue and len(batch) < self.max_batch:
                request = self._queue.popleft()
                if request.abandoned:
                    del self._pending[request.text]
                else:
                    batch.append(request)
            self._batch = batch
            self._draining = bool(batch)
        return batch

    def _drained(self, job: Future[None]) -> None:
        error = job.exception()
        if error is None:
            return
        failure = ModelError(f"the query could not be embedded: {error}")
        failure.__cause__ = error
        self._fail(self._batch, failure)
        with self._lock:
            self._draining = False
            if self._queue:
                self._start()

    def _deliver(self, batch: list[_Request[T]], vectors: Sequence[T]) -> None:
        with self._lock:
            self._answered += 1
            for request, vector in zip(batch, vectors, strict=True):
                del self._pending[request.text]
                self._cache[request.text] = vector
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        for request, vector in zip(batch, vectors, strict=True):
            _resolve(request.waiters, vector)

    def _fail(self, batch: list[_Request[T]], failure: ModelError) -> None:
        with self._lock:
            for request in batch:
                self._pending.pop(request.text, None)
        for request in batch:
            _resolve(request.waiters, failure)


def _resolve(waiters: list[asyncio.Future[T]], outcome: T | ModelError) -> None:
    """Hand the outcome to each waiter on its own loop, from any thread."""
    for waiter in waiters:
        # A closed loop's waiters have all been cancelled.
        with suppress(RuntimeError):
            waiter.get_loop().call_soon_threadsafe(_settle, waiter, outcome)


def _settle(waiter: asyncio.Future[T], outcome: T | ModelError) -> None:
    if waiter.done():
        return
    if isinstance(outcome, ModelError):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)


def separate(vectors: Vector) -> list[Vector]:
    """The rows, read-only, and each a copy: one that is kept does not keep its whole batch."""
    rows = [row.copy() for row in vectors]
    for row in rows:
        row.flags.writeable = False
    return rows


def batches_of_like_length(lengths: Sequence[int], *, most_chars: int = _DOCUMENT_BATCH_CHARS) -> list[list[int]]:
    """The positions of texts (by their lengths in characters) in batches of similar length, with little padding.

    `most_chars` is what a batch has at most, as texts times the longest one, unless a text alone has more.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        room = min(_DOCUMENT_BATCH, most_chars // max(1, lengths[row]))
        if batches and len(batches[-1]) < room:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
