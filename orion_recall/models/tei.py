"""Embedding and reranking by text-embeddings-inference (TEI) servers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from orion_recall.errors import ModelError
from orion_recall.models.batching import Vector, batches_of_like_length
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.tei_server import ServerBusy, TeiInfo, TeiServer, TooMuch
from orion_recall.text.normal import storable

log = logging.getLogger("orion_recall.models")

# What is cut here the server would truncate after tokenizing: few tokens have more characters than this.
_CHARS_A_TOKEN = 8
_FIRST_LOOK_S = 5.0
# Neither infinite nor "not a number" passes a comparison with it.
_BEYOND_SCORES = 1e9
_BUSY_PAUSES_S = (0.2, 0.4, 0.8, 1.6, 3.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    """The server's model, as it reports it, with the dimension of its first embedding."""

    info: TeiInfo
    dimension: int
    sha256: str


class TeiEmbedder:
    """An embedding server. `await load()` connects to it once; while it is away every call is a ModelError.

    A server does not show its weights: model, revision and pooling stand for them. A model from a folder has no
    revision, so of two such models with one name the second is taken for the first.
    """

    def __init__(self, server: TeiServer) -> None:
        self._server = server
        self._identity: _Identity | None = None
        self._why = f"the server at {server.url} has not been asked yet"

    @property
    def name(self) -> str:
        """The model's id, as the server has it."""
        return self._known().info.model

    @property
    def dimension(self) -> int:
        """Floats in a vector."""
        return self._known().dimension

    @property
    def weights_sha256(self) -> str:
        """A hash of the model's id, revision and pooling."""
        return self._known().sha256

    async def load(self) -> None:
        """Try to reach the server for five seconds; a failure is logged, and later calls try again."""
        try:
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self._identified()
        except TimeoutError:
            self._why = f"the server at {self._server.url} gave no answer within {_FIRST_LOOK_S:.0f} s"
            log.warning("nothing can be embedded yet: %s", self._why)
        except ModelError as error:
            self._why = str(error)
            log.warning("nothing can be embedded yet: %s", self._why)

    async def embed_query(self, text: str) -> Vector:
        """A unit vector, float32, shape (dimension,)."""
        identity = await self._identified()
        return (await self._embed([_shortened(text, identity.info)], identity.dimension))[0]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension), in the order of the texts."""
        identity = await self._identified()
        short = [_shortened(text, identity.info) for text in texts]
        vectors = np.empty((len(texts), identity.dimension), dtype=np.float32)
        for alike in batches_of_like_length([len(text) for text in short]):
            for start in range(0, len(alike), identity.info.max_batch):
                rows = alike[start : start + identity.info.max_batch]
                vectors[rows] = await self._embed_patiently([short[row] for row in rows], identity.dimension)
        return vectors

    async def close(self) -> None:
        """Closes the connections."""
        await self._server.close()

    def _known(self) -> _Identity:
        if self._identity is None:
            raise ModelError(self._why)
        return self._identity

    async def _identified(self) -> _Identity:
        info = await self._server.info()
        if self._identity is None:
            if info.task not in ("embedding", ""):
                raise ModelError(f"{info.model} at {self._server.url} is a {info.task}: it does not embed")
            vectors = await self._embed(["the first embedding shows the dimension"], None)
            served = "\n".join(part or "" for part in info.served)
            self._identity = _Identity(
                info=info, dimension=vectors.shape[1], sha256=hashlib.sha256(served.encode()).hexdigest()
            )
        return self._identity

    async def _embed_patiently(self, texts: list[str], dimension: int) -> Vectors:
        """Embeds documents patiently: a busy server is retried, a batch that is too large is halved."""
        for pause_s in (*_BUSY_PAUSES_S, None):
            try:
                return await self._embed(texts, dimension)
            except ServerBusy:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            except TooMuch:
                if len(texts) == 1:
                    raise
                middle = len(texts) // 2
                first = await self._embed_patiently(texts[:middle], dimension)
                return np.concatenate([first, await self._embed_patiently(texts[middle:], dimension)])
        raise AssertionError("unreachable")  # pragma: no cover

    async def _embed(self, texts: list[str], dimension: int | None) -> Vectors:
        answer = await self._server.post("/embed", {"inputs": texts, "normalize": True, "truncate": True})
        return _vectors(answer, len(texts), dimension, self._server.url)


class TeiReranker:
    """A reranking server. The first call connects to it."""

    def __init__(self, server: TeiServer) -> None:
        self._server = server

    async def load(self) -> None:
        """Nothing to load: the server has the model."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, in [0, 1], in the order of the texts."""
        info = await self._server.info()
        if info.task == "embedding":
            raise ModelError(f"{info.model} at {self._server.url} embeds: it does not rerank")
        found: list[float] = []
        for start in range(0, len(texts), info.max_batch):
            some = texts[start : start + info.max_batch]
            body = {
                "query": _shortened(query, info),
                "texts": [_shortened(text, info) for text in some],
                "raw_scores": False,
                "truncate": True,
            }
            found.extend(_scores(await self._server.post("/rerank", body), len(some), self._server.url))
        return found

    async def close(self) -> None:
        """Closes the connections."""
        await self._server.close()


def _shortened(text: str, info: TeiInfo) -> str:
    return storable(text[: info.max_input_tokens * _CHARS_A_TOKEN])


def _vectors(answer: Any, count: int, dimension: int | None, url: str) -> Vectors:
    """The answer as unit vectors; ModelError unless it is `count` rows of `dimension` finite numbers."""
    try:
        vectors = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the server at {url} answered /embed with what are not vectors") from error
    wanted = vectors.shape[1:] if dimension is None else (dimension,)
    if vectors.ndim != 2 or vectors.shape != (count, *wanted) or vectors.shape[1] == 0:
        expected = (count, "n" if dimension is None else dimension)
        raise ModelError(f"the server at {url} answered /embed with {vectors.shape} floats, expected {expected}")
    if not np.isfinite(vectors).all():
        raise ModelError(f"the server at {url} answered /embed with numbers that are not finite")
    # Asked for at unit length already; servers that only speak like TEI may not know the word.
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _scores(answer: Any, count: int, url: str) -> list[float]:
    """The scores in the order of the texts: the server gives them best first, each with its text's place."""
    found: dict[int, float] = {}
    for one in cast("list[Any]", answer) if isinstance(answer, list) else []:
        match one:
            case {"index": int() as index, "score": int() | float() as score} if abs(score) < _BEYOND_SCORES:
                found[index] = min(max(float(score), 0.0), 1.0)
            case _:
                break
    if sorted(found) != list(range(count)) or len(cast("list[Any]", answer)) != count:
        raise ModelError(f"the server at {url} answered /rerank with what are not the scores of {count} texts")
    return [found[index] for index in range(count)]
