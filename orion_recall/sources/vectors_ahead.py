"""Vectors of texts that will be written soon, made while what comes before them is written."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors

# Two pages of the outbox and what is told again of both: beyond that nothing is asked for a second time.
_KEPT = 600


class EmbedsDocuments(Protocol):
    """The part of an embedder that an index writes with."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors: ...


class VectorsAhead:
    """Embeds documents and keeps the latest few hundred vectors: what was asked for ahead is not made twice."""

    def __init__(self, embedder: EmbedsDocuments) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[bytes, Vector] = OrderedDict()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension), in the order of the texts."""
        keys = [_key(text) for text in texts]
        found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = await self._embedder.embed_documents(list(missing.values()))
            # Copies, so that a kept vector does not keep its whole batch.
            found |= {key: vector.copy() for key, vector in zip(missing, made, strict=True)}
        for key, vector in found.items():
            self._kept[key] = vector
            self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return np.array([found[key] for key in keys], dtype=np.float32)


def _key(text: str) -> bytes:
    """Stands for the text, which may be of megabytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
