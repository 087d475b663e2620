"""Dynamic batching of query embeddings: queries that wait at the same time are embedded in one batch, in order."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.tasks import note_waited

Vector = npt.NDArray[np.float32]
T = TypeVar("T")

# What is cut by it a model would truncate after tokenizing: few tokens have more characters.
CHARS_A_TOKEN = 8
_DOCUMENT_BATCH = 32
# Texts times the longest one's characters: about 1,000 tokens, beyond which a batch costs memory and gains nothing.
_DOCUMENT_BATCH_CHARS = 4_096


class QueryBatcher(Generic[T]):
    """Embeds queries in one worker thread, with a cache, in FIFO batches. Callers of a text share its value.

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
        self._encode, self._cache_size = encode, cache_size
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        # Guards all that follows.
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, T] = OrderedDict()
        self._queue: deque[str] = deque()
        self._waiters: dict[str, list[asyncio.Future[T]]] = {}
        self._answered = 0
        self._draining = self._closed = False

    async def embed(self, text: str) -> T:
        """The text's result. Raises `ModelError`."""
        with self._lock:
            if (cached := self._cache.get(text)) is not None:
                self._cache.move_to_end(text)
                self.cache_hits += 1
                return cached
            if self._closed:
                raise ModelError("the embedder is closed")
            waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            before = self._answered
            if (waiting := self._waiters.get(text)) is not None:
                self.cache_hits += 1
                waiting.append(waiter)
            else:
                self.cache_misses += 1
                self._waiters[text] = [waiter]
                self._queue.append(text)
                if not self._draining:
                    self._draining = True
                    self._thread.submit(self._drain)
        with FOREGROUND.active():
            try:
                return await waiter
            except asyncio.CancelledError:
                if self._answered > before and text in self._queue:
                    note_waited()
                raise

    async def close(self) -> None:
        """Let the running batch finish, fail the queries that wait, end the thread."""
        with self._lock:
            self._closed = True
            waiting = list(self._queue)
            self._queue.clear()
        self._settle(waiting, ModelError("the embedder was closed"))
        await asyncio.to_thread(self._thread.shutdown)

    def _drain(self) -> None:
        """Embed until nothing waits. In the worker, so that batches follow each other without a loop's turn."""
        while batch := self._take():
            try:
                if len(outcome := self._encode(batch)) != len(batch):
                    raise ModelError(f"{len(batch)} texts have {len(outcome)} vectors")
            except BaseException as error:  # noqa: BLE001 (a panic of the tokenizer, too: those who wait get it)
                outcome = ModelError(f"the query could not be embedded: {error}")
                outcome.__cause__ = error
            self._settle(batch, outcome)

    def _take(self) -> list[str]:
        batch: list[str] = []
        with self._lock:
            while self._queue and len(batch) < self.max_batch:
                text = self._queue.popleft()
                if all(waiter.done() for waiter in self._waiters[text]):
                    del self._waiters[text]
                else:
                    batch.append(text)
            self._draining = bool(batch)
        return batch

    def _settle(self, texts: list[str], outcome: Sequence[T] | ModelError) -> None:
        """Hands each text's outcome to those who wait for it, each on its own loop."""
        with self._lock:
            waiters = [self._waiters.pop(text) for text in texts]
            if not isinstance(outcome, ModelError):
                self._answered += 1
                self._cache.update(zip(texts, outcome, strict=True))
                while len(self._cache) > self._cache_size:
                    self._cache.popitem(last=False)
        for place, waiting in enumerate(waiters):
            value = outcome if isinstance(outcome, ModelError) else outcome[place]
            for waiter in waiting:
                with suppress(RuntimeError):  # a closed loop's waiters have all been cancelled
                    waiter.get_loop().call_soon_threadsafe(_give, waiter, value)


def _give(waiter: asyncio.Future[T], value: T | ModelError) -> None:
    if waiter.done():
        return
    if isinstance(value, ModelError):
        waiter.set_exception(value)
    else:
        waiter.set_result(value)


def separate(vectors: Vector) -> list[Vector]:
    """The rows, read-only, and each a copy: one that is kept does not keep its whole batch."""
    rows = [row.copy() for row in vectors]
    for row in rows:
        row.flags.writeable = False
    return rows


def batches_of_like_length(
    lengths: Sequence[int], *, most_chars: int = _DOCUMENT_BATCH_CHARS, most_texts: int = _DOCUMENT_BATCH
) -> list[list[int]]:
    """The positions of texts (by their lengths in characters) in batches of similar length, with little padding.

    `most_chars` is what a batch has at most, as texts times the longest one, unless a text alone has more.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        room = min(most_texts, _DOCUMENT_BATCH, most_chars // max(1, lengths[row]))
        if batches and len(batches[-1]) < room:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
