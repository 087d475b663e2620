"""The `vector` and `lexical` sources, two searches of one index, query expansion, and late interaction in it.

What a source reads elsewhere comes without vectors: `TextVectors` compares it with a question as the index compares
its own memories.
"""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from orion_recall.errors import SourceError
from orion_recall.index.metadata import NO_TOKENS
from orion_recall.interfaces import MemoryIndex, TextIndex
from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms, union
from orion_recall.models.token_space import Tokens, TokenVectors, token_space_of
from orion_recall.sources.hits import whole
from orion_recall.text.normal import without_possessive, words
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Hit, Question, SearchRequest, SourceName

_MOST_NAMES = 8


_CONTEXT_WEIGHT = 0.5
_FOR_TIES = 32
"""Further hits that are asked for, so that mostly all hits of equal score at the limit are found."""


async def vector_of(question: Question, embedder: Embedder) -> list[float]:
    """The vector of the question, which is embedded once for all searches of a recall."""
    if (vector := question.vectors.get(id(embedder))) is None:
        vector = question.vectors[id(embedder)] = (await embedder.embed_query(question.dense_text)).tolist()
    return vector


class VectorSource:
    """Memories nearest in meaning: cosine of one embedding per query."""

    name: SourceName = "vector"

    def __init__(self, index: TextIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        vector = await vector_of(request.question, self._embedder)
        found = await self._index.search_dense(vector, request.scope, request.limit, request.min_score)
        return whole(_hits(found), self._index)


class LexicalSource:
    """Memories by words: BM25 of a memory's own words, and of its words with those of its neighbours."""

    name: SourceName = "lexical"

    def __init__(self, index: TextIndex, sparse: SparseEncoder) -> None:
        self._index, self._sparse = index, sparse

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        terms = self._sparse.encode_query(request.question.keyword_text)
        if request.with_aliases:
            terms = await self._with_other_names(terms, request)
        asked = request.limit + _FOR_TIES
        own, beside = await self._index.search_sparse(terms, request.scope, asked)
        scores = dict(_certain(own, asked))
        for key, score in _certain(beside, asked):
            scores[key] = scores.get(key, 0.0) + _CONTEXT_WEIGHT * score
        best = sorted([(-score, key) for key, score in scores.items()])[: request.limit]
        return whole(_hits([(key, -negative) for negative, key in best]), self._index)

    async def _with_other_names(self, terms: SparseTerms, request: SearchRequest) -> SparseTerms:
        """The terms, and those of the other names of each entity with a full name in the question."""
        text = request.question.keyword_text
        said = {without_possessive(word) for word in words(text)}
        further: list[SparseTerms] = []
        for names in await self._index.names_sharing_words(text, request.scope.tenant, _MOST_NAMES):
            if len(names) > 1 and any(said.issuperset(words(name)) for name in names):
                further += [self._sparse.encode_query(name) for name in names]
        return union([terms, *further])


def _hits(found: Iterable[tuple[int, float]]) -> list[Hit]:
    """Hits of a key and a score alone, in their order. To call `Hit` for each takes twice as long."""
    made = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return [made(Hit, (key, score, None, (), 0.0, None)) for key, score in found]


def _certain(hits: Sequence[tuple[int, float]], asked: int) -> Sequence[tuple[int, float]]:
    """The hits without the last ones of equal score, unless most have it: it is chance which are found."""
    if len(hits) < asked:
        return hits
    last = hits[-1][1]
    above = bisect_left(hits, -last, key=lambda hit: -hit[1])
    return hits[:above] if above >= asked // 2 else hits


FindPassages = Callable[[Question, str, Sequence[int]], Coroutine[Any, Any, Mapping[int, int]]]
"""`nearest_passages` of one index and embedder."""
Closeness = Callable[[str, Sequence[int], Mapping[int, int]], Awaitable[str | Mapping[int, float]]]
"""`closeness` of one index, and of its embedder where that gives vectors of tokens."""


async def closeness(
    index: MemoryIndex,
    embedder: TokenVectors | None,
    text: str,
    keys: Sequence[int],
    passages: Mapping[int, int] = FIRST_PASSAGES,
) -> str | Mapping[int, float]:
    """Late interaction: the cosine of each question word and its nearest memory word, summed over the question.

    For the memories of these keys that the index holds, a number in [-1, 1]; of a text without words none. A text
    says why there is no late interaction here. Of a memory in `passages` the passage of that number is compared,
    else the first one. The text is embedded once, here and in a search by meaning. SourceError, ModelError when it
    cannot be had.
    """
    if (why_off := await index.without_tokens()) is not None:
        return why_off
    if embedder is None:
        raise SourceError(NO_TOKENS)
    tokens = await embedder.query_tokens(text)
    return await index.max_sim(tokens, keys, passages) if len(tokens) else {}


async def nearest_passages(
    index: MemoryIndex, embedder: Embedder, question: Question, tenant: str, keys: Sequence[int]
) -> Mapping[int, int]:
    """Of the memories of these keys those whose nearest passage in meaning is not the first, with its number."""
    return await index.nearest_passages(await vector_of(question, embedder), tenant, keys)


MOST_KEPT = 1024
"""Texts. One of 40 tokens takes 8.5 KB, the longest 50 KB: 9 MB together as a rule, 51 MB at the most."""
# What has been embedded when the time is up is kept: a batch is lost, and not all of them.
_AT_ONCE = 8

_Half = npt.NDArray[np.float16]


class Nearness(NamedTuple):
    """Similarity of a text to a question: cosine, and the sum of its words' best matches, if it has tokens."""

    cosine: float
    late_interaction: float | None


class _Kept(NamedTuple):
    vector: _Half
    tokens: _Half | None


class TextVectors:
    """A cache of the vectors of the latest `most_kept` compared texts."""

    def __init__(self, embedder: Embedder, *, most_kept: int = MOST_KEPT) -> None:
        self._embedder, self._most_kept = embedder, most_kept
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        # Two recalls that find the same text embed it once.
        self._embedding = asyncio.Lock()

    async def embed(self, texts: Iterable[str]) -> None:
        """Embed the texts that are not cached, a few at a time; a cancelled call keeps those it has. ModelError."""
        by_key = {_key(text): text for text in texts}
        for key in filter(self._kept.__contains__, by_key):
            self._kept.move_to_end(key)
        if by_key.keys() <= self._kept.keys():
            return
        async with self._embedding:
            missing = [key for key in by_key if key not in self._kept]
            for start in range(0, len(missing), _AT_ONCE):
                some = missing[start : start + _AT_ONCE]
                for key, made in zip(some, await self._made([by_key[key] for key in some]), strict=True):
                    self._kept[key] = made
                while len(self._kept) > self._most_kept:
                    self._kept.popitem(last=False)

    async def nearness(self, question: Question, texts: Sequence[str]) -> list[Nearness | None]:
        """The nearness of each text, in their order; None for a text that is not cached. ModelError."""
        direction = np.asarray(await vector_of(question, self._embedder), dtype=np.float32)
        embedder = self._by_tokens
        words = await embedder.query_tokens(question.dense_text) if embedder is not None else None
        kept = [self._kept.get(_key(text)) for text in texts]
        return [None if one is None else _compared(one, direction, words) for one in kept]

    async def _made(self, texts: Sequence[str]) -> list[_Kept]:
        if (embedder := self._by_tokens) is None:
            vectors = await self._embedder.embed_documents(texts)
            return [_Kept(vector.astype(np.float16), None) for vector in vectors]
        vectors, tokens = await embedder.documents_with_tokens(texts)
        return [
            _Kept(vector.astype(np.float16), theirs.astype(np.float16))
            for vector, theirs in zip(vectors, tokens, strict=True)
        ]

    @property
    def _by_tokens(self) -> TokenVectors | None:
        """The embedder, where it gives vectors of tokens."""
        embedder = self._embedder
        return embedder if isinstance(embedder, TokenVectors) and token_space_of(embedder) else None


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _compared(kept: _Kept, direction: Vector, words: Tokens | None) -> Nearness:
    cosine = float(kept.vector.astype(np.float32) @ direction)
    if words is None or not len(words) or kept.tokens is None:
        return Nearness(cosine, None)
    return Nearness(cosine, float((words @ kept.tokens.astype(np.float32).T).max(axis=1).sum()))
