"""Questions embedded in the process of the index: a model would share the event loop's lock in the worker.

With 32 recalls in flight that is worth a fifth more of them a second: a model's thread takes Python's lock and
gives it back several times for each question, and each time the event loop waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from orion_recall.errors import ModelError
from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder, Vectors
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.serving.index_process.messages import Packed, Scored
from orion_recall.tasks import note_waited
from orion_recall.values import Scope

_MOST_KEPT = 2048


class EmbeddedQuestion(NamedTuple):
    """A question's vector, float32, shape (dimension,); and its `query_tokens`, where the model is to give them."""

    vector: Vector
    tokens: Tokens | None


class DenseSearch(NamedTuple):
    """A search for the memories that are nearest to a question: `search_dense` without the vector."""

    scope: Scope
    limit: int
    min_score: float


class SearchedQuestion(NamedTuple):
    """A question's vectors, and what a search by them found; None where it could not be made."""

    embedded: EmbeddedQuestion
    found: Packed | None


class WorkersEmbedder(Embedder, TokenVectors, Protocol):
    """A worker's own embedder, of the same model as that of the index's process."""


class QuestionEmbedder:
    """Embeds questions by `ask`; documents are embedded by the worker's own embedder, which says what it is.

    `ask` is told of a search that is to be made with the question's vector as well. What was asked last is kept,
    until `forget`. SourceError while the index's process is away.
    """

    def __init__(
        self, own: WorkersEmbedder, ask: Callable[[str, DenseSearch | None], Awaitable[SearchedQuestion]]
    ) -> None:
        self._own, self._ask = own, ask
        self._kept: OrderedDict[str, asyncio.Future[SearchedQuestion]] = OrderedDict()
        self._answered = 0
        self.cache_hits = 0
        """Questions whose text was kept, or asked for already."""
        self.cache_misses = 0
        """Questions that were sent to the process."""

    @property
    def batches(self) -> Sequence[int]:
        """Each question goes alone."""
        return [self.cache_misses]

    @property
    def name(self) -> str:
        """As `Embedder` says."""
        return self._own.name

    @property
    def dimension(self) -> int:
        """As `Embedder` says."""
        return self._own.dimension

    @property
    def weights_sha256(self) -> str:
        """As `Embedder` says."""
        return self._own.weights_sha256

    @property
    def token_space(self) -> str:
        """As `TokenVectors` says."""
        return self._own.token_space

    @property
    def token_width(self) -> int:
        """As `TokenVectors` says."""
        return self._own.token_width

    async def embed_query(self, text: str) -> Vector:
        """A unit vector, float32, shape (dimension,), read-only since it is kept."""
        return (await self._asked(text)).embedded.vector

    async def searched(self, text: str, search: DenseSearch) -> Scored | None:
        """What is found for a text that nobody has asked to embed before: embedded and searched in one call.

        None for any other text, or where the search could not be made: it is to be searched for by its vector.
        """
        if text in self._kept:
            return None
        found = (await self._asked(text, search)).found
        return None if found is None else found.pairs()

    async def query_tokens(self, text: str) -> Tokens:
        """As `TokenVectors` says. A text is embedded once for its vector and its tokens, in either order."""
        if (tokens := (await self._asked(text)).embedded.tokens) is None:
            raise ModelError(f"{self.name} is to give no vectors of tokens: ORION_TOKEN_VECTORS is false")
        return tokens

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder` says."""
        return await self._own.embed_documents(texts)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As `TokenVectors` says."""
        return await self._own.documents_with_tokens(texts)

    def forget(self) -> None:
        """Keeps nothing of what was asked before: the process is another one, or its model is."""
        self._kept.clear()

    async def _asked(self, text: str, search: DenseSearch | None = None) -> SearchedQuestion:
        if (asked := self._kept.get(text)) is None:
            asked = self._kept[text] = asyncio.ensure_future(self._ask(text, search))
            self.cache_misses += 1
            asked.add_done_callback(partial(self._done, text))
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            self.cache_hits += 1
            self._kept.move_to_end(text)
        before = self._answered
        try:
            return await asyncio.shield(asked)  # others may wait for it
        except asyncio.CancelledError:
            if self._answered > before and not asked.done():
                note_waited()
            raise

    def _done(self, text: str, asked: asyncio.Future[SearchedQuestion]) -> None:
        is_kept = self._kept.get(text) is asked
        if asked.cancelled() or asked.exception() is not None:
            if is_kept:
                del self._kept[text]
            return
        self._answered += 1
        if is_kept and (answer := asked.result()).found is not None:  # it may be another one next time
            self._kept[text] = kept = asyncio.get_running_loop().create_future()
            kept.set_result(answer._replace(found=None))
