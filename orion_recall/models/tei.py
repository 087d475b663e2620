"""Embedding and reranking by text-embeddings-inference (TEI) servers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError

from orion_recall.contracts import describe
from orion_recall.errors import ModelError
from orion_recall.models.batching import CHARS_A_TOKEN, Vector, batches_of_like_length
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.server import JsonServer, retried
from orion_recall.tasks import in_time
from orion_recall.text.normal import storable

log = logging.getLogger("orion_recall.models")

_FIRST_LOOK_S = 5.0
_BUSY_PAUSES_S = (0.2, 0.4, 0.8, 1.6, 3.2)
# A batch of documents on a slow machine takes seconds; a query's own deadline is shorter and ends it earlier.
TIMEOUT_S = 60.0
# A server that was replaced behind a load balancer looks like the one before: it is asked again after so long.
_KNOWN_S = 30.0
_INFO_S = 5.0


class TeiInfo(BaseModel):
    """A server's report on itself."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    model_id: str
    model_sha: str | None = None
    model_type: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict[str, Mapping[str, Any]])
    max_client_batch_size: PositiveInt = 32
    max_input_length: PositiveInt = 512

    @property
    def task(self) -> str:
        """embedding, reranker, classifier or "" where it does not say."""
        return next(iter(self.model_type), "").lower()

    @property
    def served(self) -> tuple[str, str, str]:
        """All that the vectors depend on: another value is another model."""
        poolings = [str(about.get("pooling") or "") for about in self.model_type.values()]
        return self.model_id, self.model_sha or "", "".join(poolings[:1])


class TeiServer:
    """Asks one server. Every failure is a ModelError with the address, and neither key nor text."""

    def __init__(self, url: str, api_key: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._server = JsonServer(url, api_key, key_name="ORION_TEI_API_KEY", timeout_s=timeout_s)
        self.url, self.close, self._timeout_s = self._server.url, self._server.close, timeout_s
        self._asking = asyncio.Lock()
        self._info: TeiInfo | None = None
        self._known_until = 0.0

    async def info(self) -> TeiInfo:
        """The served model, queried again after a failure and twice a minute. ModelError when it has changed.

        Meanwhile it is what it was: nobody waits for a question that hangs.
        """
        if self._info is not None and self._asking.locked():
            return self._info
        async with self._asking:
            if self._info is not None and time.monotonic() < self._known_until:
                return self._info
            timeout_s = self._timeout_s if self._info is None else min(self._timeout_s, _INFO_S)
            try:
                found = TeiInfo.model_validate(await self._server.ask("GET", "/info", timeout_s=timeout_s))
            except ValidationError as error:
                why = describe(error, with_values=False)
                raise ModelError(f"{self.url}/info is none of a text-embeddings-inference server: {why}") from error
            if self._info is not None and found.served != self._info.served:
                raise ModelError(
                    f"the server at {self.url} served {self._info.model_id} and serves {found.model_id} now "
                    f"(revisions {self._info.model_sha} and {found.model_sha}): restart to use it"
                )
            self._info, self._known_until = found, time.monotonic() + _KNOWN_S
            return found

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer as JSON. After a failure the server may be another one."""
        try:
            return await self._server.ask("POST", path, body, timeout_s=self._timeout_s)
        except ModelError:
            self._known_until = 0.0
            raise


class _Identity(NamedTuple):
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
        return self._known().info.model_id

    @property
    def dimension(self) -> int:
        return self._known().dimension

    @property
    def weights_sha256(self) -> str:
        return self._known().sha256

    async def load(self) -> None:
        """Try to reach the server for five seconds; a failure is logged, and later calls try again."""
        try:
            await in_time(self._identified(), _FIRST_LOOK_S)
        except (TimeoutError, ModelError) as error:
            late = f"the server at {self._server.url} gave no answer within {_FIRST_LOOK_S:.0f} s"
            self._why = str(error) or late
            log.warning("nothing can be embedded yet: %s", self._why)

    async def embed_query(self, text: str) -> Vector:
        identity = await self._identified()
        return (await self._embed([_shortened(text, identity.info)], identity.dimension))[0]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        identity = await self._identified()
        short = [_shortened(text, identity.info) for text in texts]
        vectors = np.empty((len(texts), identity.dimension), dtype=np.float32)
        most = identity.info.max_client_batch_size
        for rows in batches_of_like_length([len(text) for text in short], most_texts=most):
            ask = partial(self._embed, [short[row] for row in rows], identity.dimension)
            vectors[rows] = await retried(ask, _BUSY_PAUSES_S, if_silent=False)
        return vectors

    async def close(self) -> None:
        await self._server.close()

    def _known(self) -> _Identity:
        if self._identity is None:
            raise ModelError(self._why)
        return self._identity

    async def _identified(self) -> _Identity:
        info = await self._server.info()
        if self._identity is None:
            if info.task not in ("embedding", ""):
                raise ModelError(f"{info.model_id} at {self._server.url} is a {info.task}: it does not embed")
            vectors = await self._embed(["the first embedding shows the dimension"], None)
            served = "\n".join(info.served)
            self._identity = _Identity(info, vectors.shape[1], hashlib.sha256(served.encode()).hexdigest())
        return self._identity

    async def _embed(self, texts: list[str], dimension: int | None) -> Vectors:
        answer = await self._server.post("/embed", {"inputs": texts, "normalize": True, "truncate": True})
        return _vectors(answer, len(texts), dimension, self._server.url)


class TeiReranker:
    """A reranking server. The first call connects to it."""

    def __init__(self, server: TeiServer) -> None:
        self._server = server

    async def load(self) -> None:
        """Nothing: the server has the model."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        info = await self._server.info()
        if info.task == "embedding":
            raise ModelError(f"{info.model_id} at {self._server.url} embeds: it does not rerank")
        found: list[float] = []
        for start in range(0, len(texts), info.max_client_batch_size):
            some = [_shortened(text, info) for text in texts[start : start + info.max_client_batch_size]]
            body = {"query": _shortened(query, info), "texts": some, "raw_scores": False, "truncate": True}
            found.extend(_scores(await self._server.post("/rerank", body), len(some), self._server.url))
        return found

    async def close(self) -> None:
        await self._server.close()


def _shortened(text: str, info: TeiInfo) -> str:
    return storable(text[: info.max_input_length * CHARS_A_TOKEN])


def _vectors(answer: Any, count: int, dimension: int | None, url: str) -> Vectors:
    """The answer as unit vectors; ModelError unless it is `count` rows of `dimension` finite numbers."""
    said = f"the server at {url} answered /embed with"
    try:
        vectors = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{said} what are not vectors") from error
    if vectors.ndim != 2 or vectors.shape != (count, dimension or vectors.shape[1]) or not vectors.size:
        raise ModelError(f"{said} {vectors.shape} floats, expected {(count, dimension or 'n')}")
    # Asked for at unit length already; servers that only speak like TEI may not know the word.
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ModelError(f"{said} numbers that are not finite, or all zero")
    return (vectors / norms).astype(np.float32)


class _Score(BaseModel):
    index: int
    score: float = Field(allow_inf_nan=False)


_SCORES = TypeAdapter(list[_Score])


def _scores(answer: Any, count: int, url: str) -> list[float]:
    """The scores in the order of the texts: the server gives them best first, each with its text's place."""
    with suppress(ValidationError):
        found = {one.index: min(max(one.score, 0.0), 1.0) for one in _SCORES.validate_python(answer, strict=True)}
        if len(answer) == count and sorted(found) == list(range(count)):
            return [found[index] for index in range(count)]
    raise ModelError(f"the server at {url} answered /rerank with what are not the scores of {count} texts")
