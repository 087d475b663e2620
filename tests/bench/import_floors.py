"""The lower bounds (floors) of an import: the same memories embedded, indexed and copied into Postgres, each alone.

Each engine is called as directly as Python can, a page of the outbox at a time, with what was made beforehand.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import qdrant_edge as qe

from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.points import edge_point
from orion_recall.index.passages import dense_forms
from orion_recall.index.write_batch import VectorPrefetch, build_write_batch
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.sql import to_row
from orion_recall.models.batching import Vector, batches_of_like_length
from orion_recall.models.embedder import SLICE_CHARS
from orion_recall.models.onnx_encoder import Encoder, Vectors, prepared
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import Tokens, TokenSpace, TokenStates
from orion_recall.postgres.pool import Connection, open_connection
from orion_recall.values import Change, Memory, Neighbour

EMBEDDING, UPSERT, COPY = "embedding alone", "index upsert alone", "COPY into Postgres alone"
PAGE = 200
_TENANT = "default"
_TABLE = "bench_import_floor"
_STATEMENT_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What one floor did with a portion: memories a second by the wall clock, and CPU milliseconds a memory."""

    per_s: float
    cpu_ms: float


class _Made:
    """An embedder with precomputed vectors, whatever the texts."""

    def __init__(self, vectors: Vectors, tokens: Sequence[Tokens], space: TokenSpace) -> None:
        self.name, self.dimension, self.weights_sha256 = "bench", int(vectors.shape[1]), "0" * 64
        self.token_space, self.token_width = space.name, space.width
        self._vectors, self._tokens = vectors, tokens

    async def embed_query(self, text: str) -> Vector:
        """The first one."""
        return self._vectors[0]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As many as there are texts: for names beyond the memories they begin again."""
        return np.resize(self._vectors, (len(texts), self.dimension))

    async def query_tokens(self, text: str) -> Tokens:
        """Those of the first one."""
        return self._tokens[0]

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """As many as there are texts."""
        return self._vectors[: len(texts)], list(self._tokens[: len(texts)])


class ImportFloors:
    """An index and a table of its own, both beside the worker's and with the same shape; open for the whole run."""

    def __init__(self, encoder: Encoder, space: TokenSpace, shard: qe.EdgeShard, postgres: Connection) -> None:
        self._encoder, self._space, self._shard, self._postgres = encoder, space, shard, postgres
        self._sparse = SparseEncoder()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, folder: Path, encoder: Encoder, dsn: str) -> AsyncGenerator[ImportFloors]:
        """The index in the folder, the table in the database."""
        space = encoder.token_space()
        vectors, states = encoder.encode_with_states(["a"])
        made = _Made(vectors, [space.document(one) for one in states], space)
        index = EdgeIndex(folder, made, SparseEncoder())
        await index.open()  # makes the shard as the worker's is made
        await index.close()
        shard = qe.EdgeShard.load(str(folder / "shard"))
        postgres = await open_connection(
            dsn, name="bench", statement_timeout_ms=_STATEMENT_TIMEOUT_MS, for_external_tables=True
        )
        try:
            await postgres.execute(
                f"CREATE TABLE {_TABLE} (tenant text, id text, text text, content jsonb, PRIMARY KEY (tenant, id))"
            )
            yield cls(encoder, space, shard, postgres)
        finally:
            await postgres.close()
            shard.close()

    async def measure(self, portion: Sequence[Mapping[str, Any]]) -> dict[str, Floor]:
        """What each of them does with memories that it has not seen, one floor after another."""
        memories = [compose(MemoryV1(**one), _TENANT) for one in portion]
        pages = [memories[start : start + PAGE] for start in range(0, len(memories), PAGE)]
        began = _Clock()
        embedded = [self._embedded(page) for page in pages]
        embedding = began.floor(len(memories))
        points = [await self._points(page, *made) for page, made in zip(pages, embedded, strict=True)]
        began = _Clock()
        for page in points:
            self._shard.update(qe.UpdateOperation.upsert_points(page))
            self._shard.flush()
        upsert = began.floor(len(memories))
        rows = [_csv(page) for page in pages]
        began = _Clock()
        for page in rows:
            await cast("Any", self._postgres).copy_to_table(_TABLE, source=io.BytesIO(page), format="csv")
        return {EMBEDDING: embedding, UPSERT: upsert, COPY: began.floor(len(memories))}

    def _embedded(self, page: Sequence[Memory]) -> tuple[Vectors, list[TokenStates]]:
        texts = [prepared(dense_forms(memory)[0]) for memory in page]
        vectors = np.empty((len(texts), self._encoder.dimension), dtype=np.float32)
        states: dict[int, TokenStates] = {}
        for places in batches_of_like_length([len(text) for text in texts], most_chars=SLICE_CHARS):
            vectors[places], made = self._encoder.encode_with_states([texts[place] for place in places])
            states.update(zip(places, made, strict=True))
        return vectors, [states[place] for place in range(len(texts))]

    async def _points(
        self, page: Sequence[Memory], vectors: Vectors, states: Sequence[TokenStates]
    ) -> list[qe.Point]:
        tokens = [self._space.document(one) for one in states]
        ahead = VectorPrefetch(_Made(vectors, tokens, self._space))
        ahead.with_tokens = True
        step = await build_write_batch(_changes(page), {}, ahead, self._sparse, with_tokens=True)
        return [edge_point(point) for point in step.points]


class _Clock:
    """When something began, by the wall and by this process's CPU."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def floor(self, memories: int) -> Floor:
        """What it has taken for so many memories."""
        passed, used = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Floor(per_s=memories / passed, cpu_ms=used * 1000 / memories)


def _changes(page: Sequence[Memory]) -> list[Change]:
    """The memories as the outbox tells them, each with the turns beside it."""
    changes: list[Change] = []
    for place, memory in enumerate(page):
        before = page[place - 1] if place else None
        after = page[place + 1] if place + 1 < len(page) else None
        changes.append(
            Change(
                position=place + 1,
                memory=memory,
                previous=_beside(memory, before),
                following=_beside(memory, after),
            )
        )
    return changes


def _beside(memory: Memory, other: Memory | None) -> Neighbour | None:
    if other is None or other.session_id != memory.session_id:
        return None
    return Neighbour(id=other.id, text=other.text, speaker=other.speaker)


def _csv(page: Sequence[Memory]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text)
    for place, memory in enumerate(page):
        rows.writerow((memory.tenant, memory.id, memory.text, json.dumps(to_row(memory, place))))
    return text.getvalue().encode()
