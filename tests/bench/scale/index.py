"""Fills the embedded index with tenants' memories in bulk, without embedding, then optimises it.

The dense vector of a memory is the mean of its words' vectors: so a composed memory and its repetitions are a
cluster, and questions, which go through the model, find what they name. For the number in a repetition's tail there
is a little noise, since each would have to go through the model. The vectors of tokens are those of the composed
memory's words. Keywords are real terms, those of the repetition's own words with the least weight of its text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import qdrant_edge as qe

from orion_recall.index.embedded.optimised_copy import optimise_apart
from orion_recall.index.embedded.points import edge_point
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.points import IndexPoint
from orion_recall.index.write_batch import VectorPrefetch, build_write_batch
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import TokenVectors
from orion_recall.settings import Settings
from tests.bench import corpus_words as lists
from tests.bench.scale.memories import SHIFT_S, Tail, TenantMemories, memory_id, session_id
from tests.bench.scale.word_vectors import WordVectors

_AT_ONCE = 200
_FLUSH_EVERY = 25
_NOISE = 0.05
"""Length of the noise beside a unit vector."""


class _Repeated:
    """Points of the repetitions of some composed memories."""

    def __init__(self, part: TenantMemories, sparse: SparseEncoder, given: WordVectors) -> None:
        self._part, self._sparse, self._given = part, sparse, given
        self._random = np.random.default_rng(5)
        self._places = [sparse.encode_document(name).indices for name in lists.PLACES]
        self._things = [sparse.encode_document(name).indices for name in lists.OBJECTS]

    async def points(self, repetition: int, places: Sequence[int], base: Sequence[IndexPoint]) -> list[IndexPoint]:
        """The points of a repetition of the composed memories at those places."""
        part, first = self._part, repetition * len(self._part.base)
        kept = [(first + place, place, one) for place, one in zip(places, base, strict=True)]
        kept = [one for one in kept if one[0] < part.size]
        if not kept:
            return []
        said = [f"{part.base[place].memory.text} {Tail.of(number).words}" for number, place, _ in kept]
        dense = await self._given.embed_documents(said)
        noise = self._random.standard_normal(dense.shape).astype(np.float32)
        dense = dense + noise * (_NOISE / np.linalg.norm(noise, axis=1, keepdims=True))
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        return [self._point(repetition, *one, dense[row]) for row, one in enumerate(kept)]

    def _point(self, repetition: int, number: int, place: int, base: IndexPoint, dense: Any) -> IndexPoint:
        part, tail = self._part, Tail.of(number)
        text = base.payload["text"] + tail.text
        payload: dict[str, Any] = base.payload | {
            "id": memory_id(number),
            "text": text,
            "hash": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:24],
            "session": session_id(number - place + part.session_of[place]),
            "ts": base.payload["ts"] - SHIFT_S * repetition,
            "beside": part.beside(number),
        }
        own = (*self._places[tail.place], *self._things[tail.thing])
        own = (*own, *self._sparse.encode_document(str(number)).indices)
        return base._replace(
            key=part.key(number),
            dense=dense,
            sparse={name: _with(terms, own) for name, terms in base.sparse.items()},
            payload=payload,
        )


async def fill_index(settings: Settings, parts: Sequence[TenantMemories], *, position: int, identity: str) -> None:
    """The index in the data folder, at that position in the outbox of the database with that identity."""
    sparse = SparseEncoder()
    async with open_embedder(settings) as embedder:
        assert isinstance(embedder, TokenVectors)
        given = WordVectors(embedder)
        folder = settings.data_dir / "index"
        folder.mkdir(parents=True, exist_ok=True)
        live = LiveShard(folder, given, sparse)
        live.load()
        for part in parts:
            await _fill(live.checked(), part, given, sparse)
        assert live.metadata is not None
        live.metadata, live.is_saved = replace(live.metadata.at(position), record=identity), False
        live.save()
        live.close()
    await optimise_apart(folder / "shard")


async def _fill(shard: qe.EdgeShard, part: TenantMemories, given: WordVectors, sparse: SparseEncoder) -> None:
    ahead, repeated = VectorPrefetch(given), _Repeated(part, sparse, given)
    ahead.with_tokens, written = True, 0
    for start in range(0, len(part.base), _AT_ONCE):
        steps = part.base[start : start + _AT_ONCE]
        batch = await build_write_batch(steps, {}, ahead, sparse, with_tokens=True)
        base = [point for point in batch.points if point.name is None]
        # Numbers as the engine takes them, made once for all repetitions.
        base = [one._replace(tokens=cast("Any", one.token_vectors)) for one in base]
        shard.update(qe.UpdateOperation.upsert_points([edge_point(one) for one in batch.points]))
        written += len(base)
        for repetition in range(1, part.repetitions):
            points = await repeated.points(repetition, range(start, start + len(base)), base)
            if points:
                shard.update(qe.UpdateOperation.upsert_points([edge_point(one) for one in points]))
            written += len(points)
            if repetition % _FLUSH_EVERY == 0:
                shard.flush()
        shard.flush()
        print(written, flush=True)


def _with(terms: SparseTerms, own: Sequence[int]) -> SparseTerms:
    """The terms with more of the least weight among them."""
    least = min(terms.values, default=1.0)
    weights = dict.fromkeys(own, least) | dict(zip(terms.indices, terms.values, strict=True))
    indices = tuple(sorted(weights))
    return SparseTerms(indices=indices, values=tuple(weights[index] for index in indices))
