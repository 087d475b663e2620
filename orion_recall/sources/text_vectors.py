"""Vectors of unindexed texts: each text is embedded once and cached by its content.

What a source reads elsewhere comes without vectors. It is compared with a question as the index compares its own
memories: by the cosine of their vectors, and word by word where the embedder gives vectors of tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder
from orion_recall.models.token_space import Tokens, TokenVectors, token_space_of
from orion_recall.sources.vector_lexical import vector_of
from orion_recall.values import Question

MOST_KEPT = 1024
"""Texts. One of 40 tokens takes 8.5 KB, the longest 50 KB: 9 MB together as a rule, 51 MB at the most."""
# What has been embedded when the time is up is kept: a batch is lost, and not all of them.
_AT_ONCE = 8

_Half = npt.NDArray[np.float16]


class Nearness(NamedTuple):
    """Similarity of a text to a question: the cosine, and the sum of its words' best matches, in [-1, 1].

    `late_interaction` is None where the embedder gives no vectors of tokens.
    """

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
