"""Vector prefetch: embeds the texts of the next page while the current one is written."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from orion_recall.index.points import HalfTokens
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import TokenVectors

T = TypeVar("T")

# The texts of the page of the outbox that is written, of the two that are prepared, and what is told again of
# these: beyond that nothing is asked for twice.
_KEPT = 800
# The names in them, which have no vectors of tokens: 6 MB at the most.
_NAMES_KEPT = 4000


class EmbedsDocuments(Protocol):
    """The part of an embedder that an index needs for writing."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors: ...


class Embedded(NamedTuple):
    """A text's unit vector, shape (dimension,), and those of its tokens, float16, shape (tokens, width)."""

    dense: Vector
    tokens: HalfTokens | None


class VectorPrefetch:
    """Embeds documents and keeps the latest few hundred vectors: a prefetched text is not embedded twice.

    `with_tokens`: whether the vectors of tokens are wanted as well, where the embedder gives them.
    """

    def __init__(self, embedder: EmbedsDocuments) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[bytes, Embedded] = OrderedDict()
        self._names_kept: OrderedDict[bytes, Vector] = OrderedDict()
        self.with_tokens = False

    async def vectors(self, texts: Sequence[str]) -> list[Embedded]:
        """The vectors of the texts, in their order."""
        keys = [_key(text) for text in texts]
        found = {key: self._kept[key] for key in keys if key in self._kept and self._serves(self._kept[key])}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= dict(zip(missing, await self._made(list(missing.values())), strict=True))
        _keep(self._kept, found, _KEPT)
        return [found[key] for key in keys]

    async def of_names(self, labels: Sequence[str]) -> list[Vector]:
        """The unit vectors of names, in their order. Names are compared as a whole: never with those of tokens."""
        keys = [_key(label) for label in labels]
        found = {key: self._names_kept[key] for key in keys if key in self._names_kept}
        missing = {key: label for key, label in zip(keys, labels, strict=True) if key not in found}
        if missing:
            made = await self._embedder.embed_documents(list(missing.values()))
            found |= {key: vector.copy() for key, vector in zip(missing, made, strict=True)}
        _keep(self._names_kept, found, _NAMES_KEPT)
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


def _keep(kept: OrderedDict[bytes, T], latest: Mapping[bytes, T], most: int) -> None:
    for key, value in latest.items():
        kept[key] = value
        kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def _key(text: str) -> bytes:
    """Stands for the text, which may be of megabytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
