"""Vectors of texts that will be written soon, made while what comes before them is written."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import TokenVectors

HalfTokens = npt.NDArray[np.float16]

# Two pages of the outbox and what is told again of both: beyond that nothing is asked for a second time.
_KEPT = 600


class EmbedsDocuments(Protocol):
    """The part of an embedder that an index writes with."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors: ...


class Embedded(NamedTuple):
    """A text's unit vector, shape (dimension,), and those of its tokens, float16, shape (tokens, width)."""

    dense: Vector
    tokens: HalfTokens | None


class GivesVectors(Protocol):
    """What the points of an index are made with."""

    async def vectors(self, texts: Sequence[str]) -> list[Embedded]: ...


class VectorsAhead:
    """Embeds documents and keeps the latest few hundred vectors: what was asked for ahead is not made twice.

    `with_tokens`: whether the vectors of tokens are wanted as well, where the embedder gives them.
    """

    def __init__(self, embedder: EmbedsDocuments) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[bytes, Embedded] = OrderedDict()
        self.with_tokens = False

    async def vectors(self, texts: Sequence[str]) -> list[Embedded]:
        """The vectors of the texts, in their order."""
        keys = [_key(text) for text in texts]
        found = {key: self._kept[key] for key in keys if key in self._kept and self._serves(self._kept[key])}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= dict(zip(missing, await self._made(list(missing.values())), strict=True))
        for key, vector in found.items():
            self._kept[key] = vector
            self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return [found[key] for key in keys]

    def _serves(self, kept: Embedded) -> bool:
        return kept.tokens is not None or not self.with_tokens

    async def _made(self, texts: Sequence[str]) -> list[Embedded]:
        """Copies, so that a kept vector does not keep its whole batch."""
        if not self.with_tokens or not isinstance(self._embedder, TokenVectors):
            return [Embedded(vector.copy(), None) for vector in await self._embedder.embed_documents(texts)]
        vectors, tokens = await self._embedder.documents_with_tokens(texts)
        return [
            Embedded(vector.copy(), theirs.astype(np.float16))
            for vector, theirs in zip(vectors, tokens, strict=True)
        ]


def _key(text: str) -> bytes:
    """Stands for the text, which may be of megabytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
