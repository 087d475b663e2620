"""Vectors of synthetic memories as means of word vectors: embedding 100,000 of them would take half an hour.

A text's vector is the mean of its words' vectors, at unit length, and its tokens are its words' tokens one after
another; every word goes through the model once. So a text has as many tokens as it should, texts that share words
are near, and questions, which go through the model as ever, find what they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.text.normal import words


class TokenEmbedder(Embedder, TokenVectors, Protocol):
    """An embedder that gives the vectors of tokens, too."""


class WordVectors:
    """An embedder of documents by word vectors; name, space and queries are those of the wrapped embedder."""

    def __init__(self, embedder: TokenEmbedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[Vector, Tokens]] = {}
        self.name, self.dimension = embedder.name, embedder.dimension
        self.weights_sha256 = embedder.weights_sha256
        self.token_space, self.token_width = embedder.token_space, embedder.token_width

    async def embed_query(self, text: str) -> Vector:
        """The embedder's own."""
        return await self._embedder.embed_query(text)

    async def query_tokens(self, text: str) -> Tokens:
        """The embedder's own."""
        return await self._embedder.query_tokens(text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension)."""
        return (await self.documents_with_tokens(texts))[0]

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As `TokenVectors` says."""
        said = [words(text) or ["nothing"] for text in texts]
        new = sorted({word for one in said for word in one if word not in self._known})
        if new:
            vectors, tokens = await self._embedder.documents_with_tokens(new)
            self._known.update(zip(new, zip(vectors, tokens, strict=True), strict=True))
        made = np.array([np.mean([self._known[word][0] for word in one], axis=0) for one in said])
        made /= np.maximum(np.linalg.norm(made, axis=1), 1e-12)[:, None]
        return made.astype(np.float32), [np.concatenate([self._known[word][1] for word in one]) for one in said]
