"""What a worker and the process of its index tell each other."""

from __future__ import annotations

import asyncio
import pickle
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, Literal, NamedTuple, Protocol

from orion_recall.errors import ModelError
from orion_recall.index.metadata import IndexMetadata
from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder, Vectors
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.settings import Settings
from orion_recall.tasks import note_waited
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Scope

Scored = list[tuple[int, float]]
Target = Literal["live", "build"]
"""The index in use, or the complete build that is about to replace it."""


class Packed(NamedTuple):
    """Keys and scores in columns: to pickle and read a list of pairs takes four times as long."""

    keys: bytes
    scores: bytes

    @classmethod
    def of(cls, scored: Iterable[tuple[int, float]]) -> Packed:
        """The pairs, in their order; keys have 63 bits."""
        pairs = [*scored]
        keys, scores = [key for key, _ in pairs], [score for _, score in pairs]
        return cls(array("q", keys).tobytes(), array("d", scores).tobytes())

    def pairs(self) -> Scored:
        return list(zip(array("q", self.keys), array("d", self.scores), strict=True))


class Opening(NamedTuple):
    """The worker's first frame: how the index is opened. `identity` is that of the database it is a copy of."""

    settings: Settings
    keywords: KeywordWeights
    identity: str | None


class Call(NamedTuple):
    number: int
    target: Target
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class Calls(NamedTuple):
    """Calls to answer together, in their order: some reads, or one call that takes long."""

    calls: Sequence[Call]
    are_reads: bool


class Foreground(NamedTuple):
    """Whether the worker answers queries now: background work yields to them."""

    is_active: bool


@dataclass(frozen=True, slots=True)
class IndexState:
    """What a worker knows of its index without asking. `has` are fields in which some memory has a value."""

    metadata: IndexMetadata | None = None
    has: frozenset[str] = frozenset()


class Answer(NamedTuple):
    number: int
    value: Any
    error: BaseException | None = None


class Answers(NamedTuple):
    """The answers of one frame of calls, and the states that are not as they were told last."""

    answers: Sequence[Answer]
    are_reads: bool
    states: Sequence[tuple[Target, IndexState]]


class Logged(NamedTuple):
    logger: str
    level: int
    text: str


_LENGTH = Struct("<Q")


class Frames(asyncio.Protocol):
    """One end of the socket: `heard` is called with each object that comes, `lost` once the other end is gone."""

    def __init__(self, heard: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._heard, self._lost = heard, lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    @property
    def is_open(self) -> bool:
        """Whether somebody is at the other end, as far as this one has heard."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start, whole = 0, len(buffer)
        while whole - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(buffer, start)[0]
            if end > whole:
                break
            with memoryview(buffer) as view, view[start + _LENGTH.size : end] as body:
                told = pickle.loads(body)  # noqa: S301  # nosec B301
            start = end
            self._heard(told)
        if start:
            del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def send(self, told: object) -> None:
        if self._transport is not None:
            body = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
            self._transport.writelines((_LENGTH.pack(len(body)), body))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


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
        return [self.cache_misses]

    @property
    def name(self) -> str:
        return self._own.name

    @property
    def dimension(self) -> int:
        return self._own.dimension

    @property
    def weights_sha256(self) -> str:
        return self._own.weights_sha256

    @property
    def token_space(self) -> str:
        return self._own.token_space

    @property
    def token_width(self) -> int:
        return self._own.token_width

    async def embed_query(self, text: str) -> Vector:
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
        if (tokens := (await self._asked(text)).embedded.tokens) is None:
            raise ModelError(f"{self.name} is to give no vectors of tokens: ORION_TOKEN_VECTORS is false")
        return tokens

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._own.embed_documents(texts)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
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
