"""Long memories from the record to the index: their best passage."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool
from orion_recall.values import Scope
from tests.samples.source_samples import HashingEmbedder, key

TENANT = "harbour-tests"
FILLER = "The minutes of the harbour board say nothing of interest here. " * 20


@pytest.mark.parametrize(
    "scope",
    [
        {"session_id": "s"},
        {"user_id": "u"},
        {"agent_id": "ag"},
        {"run_id": "r"},
        {"speakers": ("Ana",)},
        {"tags": ("sea",)},
        {"told": ((1_700_000_000.0, 1_900_000_000.0),)},
    ],
    ids=lambda scope: next(iter(scope)),
)
async def test_the_best_passage_is_found_whatever_the_scope(
    scope: dict[str, Any], pool: Pool, tmp_path: Path
) -> None:
    fields = {"speaker": "Ana", "session_id": "s", "user_id": "u", "agent_id": "ag", "run_id": "r", "tags": ["sea"]}
    text = f"{FILLER}\nThe lighthouse keeper retires on 5 March 2026.\n{FILLER}"
    told = MemoryV1.model_validate({"id": "long", "text": text, "mentioned_at": "2026-01-01T00:00Z", **fields})
    record = Record(pool)
    await record.store([compose(told, TENANT)])
    async with AsyncExitStack() as stack:
        index = EdgeIndex(tmp_path / "index", HashingEmbedder(), SparseEncoder())
        await index.open()
        stack.push_async_callback(index.close)
        await Projector(record, index, copy="test").catch_up()
        vector = [float(one) for one in await HashingEmbedder().embed_query("The lighthouse keeper retires")]
        ((_, everywhere),) = await index.search_dense(vector, Scope(tenant=TENANT), 10, 0.0)
        assert await index.search_dense(vector, Scope(tenant=TENANT, **scope), 10, 0.0) == [
            (key("long", TENANT), everywhere)
        ]
