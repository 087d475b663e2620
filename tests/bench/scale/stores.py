"""Filled stores of many memories for `scale`: without the bus, and with vectors that take no model's time.

A memory's vector is the mean of its words' vectors, at unit length, and its tokens are its words' tokens one after
another; every word goes through the model once. Embedding 100,000 memories would take half an hour. So a text has
as many tokens as it should, texts that share words are near, and questions, which go through the model as ever,
find what they name. Everything else is what a worker writes.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from pydantic import SecretStr

from orion_recall.contracts import MemoryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.evaluation.trials import index_and_graph, private_settings
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.postgres.schema import migrate
from orion_recall.serving.backends import open_sources, own_copy
from orion_recall.settings import Settings
from orion_recall.text.normal import words
from tests.bench.command import say
from tests.bench.corpus import corpus

SMALL, LARGE = "small", "large"
"""The tenants: one of a thousand memories, and one of all others."""
_SMALL_SIZE = 1_000
_AT_ONCE = 200
_TOLD = "scale.json"
_STATEMENT_TIMEOUT_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Running engines on filled stores. `sessions` are those that go on, by tenant; times are epoch seconds."""

    size: int
    settings: Settings
    engines: EmbeddedEngines
    now: float
    sessions: Mapping[str, Sequence[str]]
    filled_s: float


@contextlib.asynccontextmanager
async def open_stores(size: int, folder: Path) -> AsyncGenerator[Stores]:
    """The stores in the folder, filled unless they are; `filled_s` is 0 where they were."""
    data, began = folder / "data", time.perf_counter()
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    async with EmbeddedEngines.start(data) as engines:
        settings = private_settings(Settings.read(), data).changed(
            postgres_dsn=SecretStr(engines.postgres_dsn), redis_url=SecretStr(engines.redis_url)
        )
        is_new = not (data / _TOLD).exists()
        if is_new:
            told = await _fill(size, settings, engines.postgres_dsn)
            (data / _TOLD).write_text(json.dumps(told), "utf-8")
        filled_s = time.perf_counter() - began if is_new else 0.0
        told = json.loads((data / _TOLD).read_text("utf-8"))
        yield Stores(size=size, settings=settings, engines=engines, filled_s=filled_s, **told)


async def _fill(size: int, settings: Settings, dsn: str) -> Mapping[str, object]:
    """Fill them; the moment of the last memory, and the sessions of both tenants."""
    now, small = time.time(), min(_SMALL_SIZE, size // 2)
    await migrate(dsn)
    pool = await open_pool(dsn, name="bench", max_size=2, statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
    try:
        say(f"{size:,} memories: the record")
        record, sessions = Record(pool), dict[str, Sequence[str]]()
        for tenant, count in ((SMALL, small), (LARGE, size - small)):
            told = corpus(count, now=now, seed=7 if tenant == LARGE else 8)
            sessions[tenant] = told.recent_sessions
            for start in range(0, count, _AT_ONCE):
                some = told.memories[start : start + _AT_ONCE]
                await record.store([compose(MemoryV1(**one), tenant) for one in some])
        await _fill_copies(size, settings, record, pool)
    finally:
        await pool.close()
    return {"now": now, "sessions": sessions}


async def _fill_copies(size: int, settings: Settings, record: Record, pool: Pool) -> None:
    def by_words(embedder: Embedder) -> Embedder:
        assert isinstance(embedder, TokenVectors)
        return WordVectors(cast("TokenEmbedder", embedder))

    async with open_sources(settings, around=by_words) as opened:
        for copy in index_and_graph(opened):
            say(f"{size:,} memories: the {copy.kind}")
            await Projector(record, copy, copy=own_copy(settings)).catch_up()
            if isinstance(copy, EdgeIndex):
                await copy.optimise()
    await pool.execute("VACUUM ANALYZE")


class TokenEmbedder(Embedder, TokenVectors, Protocol):
    """An embedder that gives the vectors of tokens, too."""


class WordVectors:
    """An embedder of documents by word vectors; name, space and queries are those of the wrapped embedder."""

    def __init__(self, embedder: TokenEmbedder) -> None:
        self._known: dict[str, tuple[Vector, Tokens]] = {}
        self._embedder = embedder
        self.name, self.dimension = embedder.name, embedder.dimension
        self.weights_sha256 = embedder.weights_sha256
        self.token_space, self.token_width = embedder.token_space, embedder.token_width
        self.embed_query, self.query_tokens = embedder.embed_query, embedder.query_tokens

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (texts, dimension)."""
        return (await self.documents_with_tokens(texts))[0]

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        said = [words(text) or ["nothing"] for text in texts]
        new = sorted({word for one in said for word in one if word not in self._known})
        if new:
            vectors, tokens = await self._embedder.documents_with_tokens(new)
            self._known.update(zip(new, zip(vectors, tokens, strict=True), strict=True))
        made = np.array([np.mean([self._known[word][0] for word in one], axis=0) for one in said])
        made /= np.maximum(np.linalg.norm(made, axis=1), 1e-12)[:, None]
        return made.astype(np.float32), [np.concatenate([self._known[word][1] for word in one]) for one in said]
