"""Vectors of memories and questions, made before a measurement: drawn at random, or a model's of files' texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orion_recall.evaluation.dataset import read_memories, read_queries
from orion_recall.models.batching import Vector
from orion_recall.models.int8 import Int8Encoder
from orion_recall.models.onnx_encoder import Vectors, wheel_weights
from orion_recall.models.token_space import Tokens
from tests.bench.command import say

Array = npt.NDArray[np.float32]

_CLUSTER = 100
_AT_ONCE, _SAY_EVERY = 500, 10_000
_SENTENCES = re.compile(r"\n+|(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W\d_]{2,}")
# A sentence of fewer words is mostly a greeting or a heading.
_LEAST_WORDS, _MOST_CHARACTERS = 4, 1_200


class GivenVectors:
    """An embedder that gives the memory number N its vector: its text ends with N. So does a question's.

    Each memory has one token, so that the engine is configured as it is for the shipped model.
    """

    name, weights_sha256 = "given", "0" * 64
    token_space, token_width = "one", 8

    def __init__(self, documents: Array, questions: Array) -> None:
        self.documents, self.questions = documents, questions
        self.dimension = int(documents.shape[1])

    async def embed_query(self, text: str) -> Vector:
        """The vector of the question number N."""
        return self.questions[_number(text)]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of the memories."""
        return self.documents[[_number(text) for text in texts]]

    async def query_tokens(self, text: str) -> Tokens:
        """One token, whatever the text."""
        return np.ones((1, self.token_width), dtype=np.float32)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """The vectors, and one token for each text."""
        return await self.embed_documents(texts), [await self.query_tokens(text) for text in texts]


def clustered(
    size: int, questions: int, *, dimension: int = 384, rank: int | None = None, spread: float = 1.0, seed: int = 7
) -> GivenVectors:
    """Drawn unit vectors in clusters of about 100: a common centre and noise of `spread` times its length.

    With a `rank` all lie in a space of so few dimensions, turned into the others.
    """
    random = np.random.default_rng(seed)
    inner = rank or dimension
    turned = random.standard_normal((rank, dimension)) if rank else np.eye(dimension)
    centres = _units(random.standard_normal((max(size // _CLUSTER, 1), inner)))

    def drawn(count: int) -> Array:
        noise = _units(random.standard_normal((count, inner)))
        return _units((centres[random.integers(len(centres), size=count)] + spread * noise) @ turned)

    return GivenVectors(drawn(size), drawn(questions))


def embedded(
    memories: Sequence[Path], questions: Sequence[Path], kept: Path | None, *, size: int, most_questions: int
) -> GivenVectors:
    """The shipped model's vectors of the files' texts and questions, in an order that is the same in every run.

    Each text, each of its sentences and each two that follow one another is a memory, once. The vectors are kept in
    the file `kept`, and read from there when it is there.
    """
    if kept is not None and kept.exists():
        with np.load(kept) as read:
            documents, asked = read["documents"], read["questions"]
    else:
        texts = list(dict.fromkeys(one for file in memories for piece in _texts(file) for one in _parts(piece)))
        encoder = Int8Encoder(wheel_weights())
        documents = _encoded(encoder, texts)
        asked = _encoded(encoder, [query.text for file in questions for query in read_queries(file)])
        if kept is not None:
            np.savez(kept, documents=documents, questions=asked)
    random = np.random.default_rng(7)
    documents, asked = random.permutation(documents)[:size], random.permutation(asked)[:most_questions]
    return GivenVectors(documents, asked)


def _texts(file: Path) -> Iterator[str]:
    for memory in read_memories(file):
        yield memory.text


def _parts(text: str) -> Iterator[str]:
    sentences = [one for one in map(_stripped, _SENTENCES.split(text)) if len(_WORD.findall(one)) >= _LEAST_WORDS]
    for one in (text, *sentences, *map(" ".join, pairwise(sentences))):
        yield one[:_MOST_CHARACTERS]


def _stripped(sentence: str) -> str:
    return sentence.strip(" \t-*#|>`")


def _encoded(encoder: Int8Encoder, texts: Sequence[str]) -> Array:
    parts: list[Array] = []
    for start in range(0, len(texts), _AT_ONCE):
        parts.append(encoder.encode(texts[start : start + _AT_ONCE]))
        if start % _SAY_EVERY == 0:
            say(f"embedding {len(texts):,} texts: {start:,}")
    return np.concatenate(parts)


def _units(values: npt.NDArray[Any]) -> Array:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def _number(text: str) -> int:
    return int(text.rpartition(" ")[2])
